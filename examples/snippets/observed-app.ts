import { NestFactory } from '@nestjs/core';
// #region module
import { Inject, Injectable, Module } from '@nestjs/common';
import { createObserveModule } from '@nestjs/observe';
import { McpArgs, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';

export const { ObserveModule, ObserveInstrument } = createObserveModule();

@Injectable()
export class Stock {
  count(item: string): number {
    return item.length;
  }
}

@Injectable()
export class StockTools {
  constructor(@Inject(Stock) private readonly stock: Stock) {}

  @Tool({
    name: 'count_items',
    description: 'Counts items',
    inputSchema: z.object({ item: z.string() }),
  })
  count(@McpArgs('item') item: string): string {
    return `There are ${this.stock.count(item)}.`;
  }
}

@Module({
  imports: [
    ObserveModule.forRootAsync({
      useFactory: () => ({
        appKey: process.env['OBSERVE_APP_KEY']!,
        appSecret: process.env['OBSERVE_APP_SECRET']!,
        serviceId: 'stock',
      }),
    }),
    McpStreamableModule.forRoot({ serverInfo: { name: 'stock', version: '1.0.0' } }),
  ],
  providers: [Stock, StockTools],
})
export class AppModule {}
// #endregion

export async function create() {
  // #region create
  const app = await NestFactory.create(AppModule, { instrument: ObserveInstrument });
  // #endregion
  return app;
}
