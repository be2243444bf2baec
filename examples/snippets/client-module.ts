// #region module
import { Module } from '@nestjs/common';
import { McpClientModule } from 'nestjs-mcp-streamable/client';
import { Purchasing } from './client-service.js';
import { serviceToken } from './client-token.js';

@Module({
  imports: [
    McpClientModule.forRoot({
      clients: {
        orders: { url: 'https://orders.example.com/mcp', auth: () => serviceToken() },
        stock: { url: 'http://stock:3000/mcp' },
      },
    }),
  ],
  providers: [Purchasing],
})
export class PurchasingModule {}
// #endregion

export const later = [
  // #region async
  McpClientModule.forRootAsync({
    names: ['orders'],
    inject: ['ORDERS_URL'],
    useFactory: (url: string) => ({ clients: { orders: { url } } }),
  }),
  // #endregion
];
