// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: {
        name: 'com.example/orders',
        title: 'Orders',
        version: '1.2.0',
        description: 'Finds orders, and pays them back',
        icons: [{ src: 'https://example.com/orders.png', mimeType: 'image/png' }],
      },
      serverCard: { url: 'https://api.example.com/mcp' },
    }),
  ],
})
export class CardModule {}
// #endregion
