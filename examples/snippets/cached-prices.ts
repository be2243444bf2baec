// #region cache
import { Injectable, Module } from '@nestjs/common';
import { McpStreamableModule, Resource } from 'nestjs-mcp-streamable';

const HOUR_MS = 3_600_000;

@Injectable()
export class Prices {
  @Resource({
    uri: 'shop://prices',
    name: 'prices',
    cache: { ttlMs: HOUR_MS, scope: 'public' },
  })
  all(): object {
    return { lamp: 40, chair: 90 };
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'shop', version: '1.0.0' },
      listCache: { ttlMs: HOUR_MS, scope: 'public' },
    }),
  ],
  providers: [Prices],
})
export class AppModule {}
// #endregion
