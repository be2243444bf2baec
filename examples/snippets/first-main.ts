import { NestFactory } from '@nestjs/core';
import { AppModule } from './first-app.js';

export async function main(): Promise<void> {
  // #region main
  const app = await NestFactory.create(AppModule);
  app.enableShutdownHooks();
  await app.listen(3000, '127.0.0.1');
  // #endregion
}
