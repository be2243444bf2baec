import { Injectable, Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';

@Injectable()
export class ConfigService {
  getOrThrow(name: string): string {
    const value = process.env[name];
    if (value === undefined) throw new Error(`${name} is not set.`);
    return value;
  }
}

@Module({ providers: [ConfigService], exports: [ConfigService] })
export class ConfigModule {}

// #region module
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
