import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { SalesTools } from './sales.tools.js';

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'sales', version: '1.0.0' } })],
  providers: [SalesTools],
})
export class AppModule {}
