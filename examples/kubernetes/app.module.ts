import { hostname } from 'node:os';
import { Controller, Get, Inject, Injectable, Module } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import { McpHealthIndicator, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';

@Injectable()
export class ClusterTools {
  @Tool({
    name: 'where',
    title: 'Name the pod',
    description: 'Says which pod has answered',
    annotations: { readOnlyHint: true },
  })
  where(): string {
    return hostname();
  }
}

// #region health
@Controller('health')
export class HealthController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(McpHealthIndicator) private readonly mcp: McpHealthIndicator,
  ) {}

  /** Fails while Redis is away and once a shutdown has begun, so that no new requests come. */
  @Get('ready')
  @HealthCheck()
  ready() {
    return this.health.check([() => this.mcp.check('mcp')]);
  }

  /** Does not ask Redis: a restart of the pod does not bring Redis back. */
  @Get('live')
  live() {
    return { status: 'ok' };
  }
}
// #endregion

// #region module
@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      useFactory: () => ({
        serverInfo: { name: 'cluster', version: '1.0.0' },
        backend: redisBackend(setting('REDIS_URL')),
        requestStateKeys: [setting('REQUEST_STATE_KEY')],
        allowedHosts: setting('ALLOWED_HOSTS').split(','),
        drainMs: 20_000, // if you raise it, raise terminationGracePeriodSeconds too
      }),
    }),
    TerminusModule,
  ],
  controllers: [HealthController],
  providers: [ClusterTools],
})
export class AppModule {}
// #endregion

function setting(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`The environment variable ${name} must be set.`);
  return value;
}
