// #region main
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks(); // after SIGTERM or Ctrl-C, running calls have time to end
  await app.listen(process.env.PORT ?? 3000, '127.0.0.1');
}
await bootstrap();
// #endregion
