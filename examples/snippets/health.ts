// #region controller
import { Controller, Get, Inject, Module } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { McpHealthIndicator, McpStreamableModule } from 'nestjs-mcp-streamable';

@Controller('health')
export class HealthController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(McpHealthIndicator) private readonly mcp: McpHealthIndicator,
  ) {}

  @Get('ready')
  @HealthCheck()
  ready() {
    return this.health.check([() => this.mcp.check('mcp')]);
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      shutdownDelayMs: 5_000,
    }),
    TerminusModule,
  ],
  controllers: [HealthController],
})
export class OrdersModule {}
// #endregion
