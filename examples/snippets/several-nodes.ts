// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { ConfigModule, ConfigService } from './app-config.js'; // or those of @nestjs/config

@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      inject: [ConfigService],
      imports: [ConfigModule],
      useFactory: (config: ConfigService) => ({
        serverInfo: { name: 'orders', version: '1.0.0' },
        backend: redisBackend(config.getOrThrow('REDIS_URL')),
        requestStateKeys: [config.getOrThrow('REQUEST_STATE_KEY')],
      }),
    }),
  ],
})
export class OrdersModule {}
// #endregion
