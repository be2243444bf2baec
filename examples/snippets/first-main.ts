// #region main
import { NestFactory } from '@nestjs/core';
import { AppModule } from './app.module.js';

async function bootstrap() {
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks(); // SIGTERM and Ctrl-C first end calls and streams
  await app.listen(process.env.PORT ?? 3000, '127.0.0.1');
}
await bootstrap();
// #endregion
