// #region named
import { Controller, Get, Inject } from '@nestjs/common';
import { HealthCheck, HealthCheckService } from '@nestjs/terminus';
import { InjectMcp, McpHealthIndicator } from 'nestjs-mcp-streamable';

@Controller('health')
export class BothController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @InjectMcp(McpHealthIndicator, 'orders') private readonly orders: McpHealthIndicator,
    @InjectMcp(McpHealthIndicator, 'admin') private readonly admin: McpHealthIndicator,
  ) {}

  @Get('ready')
  @HealthCheck()
  ready() {
    return this.health.check([
      () => this.orders.check('orders'),
      () => this.admin.check('admin'),
    ]);
  }
}
// #endregion
