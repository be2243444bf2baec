// #region module
import { Controller, Get, Header, Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { register } from 'prom-client';

@Controller('metrics')
export class MetricsController {
  @Get()
  @Header('Content-Type', register.contentType)
  metrics(): Promise<string> {
    return register.metrics();
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'orders', version: '1.0.0' } }),
    McpPrometheusModule.forRoot(),
  ],
  controllers: [MetricsController],
})
export class OrdersModule {}
// #endregion
