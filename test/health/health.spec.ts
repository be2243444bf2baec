import { Controller, Get, Inject, Injectable } from '@nestjs/common';
import { HealthCheck, HealthCheckService, TerminusModule } from '@nestjs/terminus';
import {
  InjectMcp,
  type McpContext,
  McpCtx,
  McpHealthIndicator,
  McpStreamableModule,
  type McpStreamableOptions,
  Tool,
} from 'nestjs-mcp-streamable';
import { redisBackend } from 'nestjs-mcp-streamable/redis';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/adapters.js';
import { gate, TestApp, serverInfo } from '../support/app.js';
import { send } from '../support/http.js';
import { describeRedis, RedisServer } from '../support/redis.js';

let released: ReturnType<typeof gate<void>>;

@Injectable()
class Tools {
  @Tool({ name: 'waits', description: 'Waits until the test lets it go' })
  async waits(@McpCtx() _: McpContext): Promise<string> {
    await released.promise;
    return 'done';
  }
}

@Controller('ready')
class ReadyController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @Inject(McpHealthIndicator) private readonly mcp: McpHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  ready() {
    return this.health.check([() => this.mcp.check('mcp', { timeoutMs: 500 })]);
  }
}

@Controller('ready')
class TwoController {
  constructor(
    @Inject(HealthCheckService) private readonly health: HealthCheckService,
    @InjectMcp(McpHealthIndicator, 'orders') private readonly orders: McpHealthIndicator,
    @InjectMcp(McpHealthIndicator, 'admin') private readonly admin: McpHealthIndicator,
  ) {}

  @Get()
  @HealthCheck()
  ready() {
    return this.health.check([() => this.orders.check('orders'), () => this.admin.check('admin')]);
  }
}

async function readiness(app: TestApp) {
  const response = await send(`${app.base}/ready`, { method: 'GET' });
  const body = await response.json();
  return { http: response.status, status: body.status, details: body.details };
}

describe.each(ADAPTERS)('McpHealthIndicator with Terminus on %s', (adapter) => {
  let app: TestApp;

  const start = async (options: Partial<McpStreamableOptions> = {}): Promise<TestApp> =>
    (app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRoot({ serverInfo, ...options }), TerminusModule.forRoot({ logger: false })],
      controllers: [ReadyController],
      providers: [Tools],
    }));

  describe('in memory', () => {
    afterEach(() => app.close());

    it('up, with the counts of the endpoint', async () => {
      await start();
      await app.client().initialize();
      expect(await readiness(app)).toEqual({
        http: 200,
        status: 'ok',
        details: {
          mcp: {
            status: 'up',
            draining: false,
            sessionStore: 'up',
            eventStore: 'up',
            messageBus: 'up',
            sessions: 1,
            live: 1,
            inFlight: 0,
            outbound: 0,
            streams: 0,
            readers: 0,
            subscriptions: 0,
            tasks: 0,
            heldBytes: 0,
          },
        },
      });
    });

    it('down while the app drains, before the port closes', async () => {
      released = gate();
      await start({ drainMs: 10_000 });
      const client = await app.client().initialize();
      const call = client.call('waits');
      await expect.poll(() => app.service.nodeCounts().inFlight).toBe(1);
      const closing = app.app.close();
      await expect.poll(() => app.service.accepting).toBe(false);
      const { http, details } = await readiness(app);
      expect(http).toBe(503);
      expect(details.mcp).toMatchObject({ status: 'down', draining: true, sessionStore: 'up', inFlight: 1 });
      expect(details.mcp.message).toBe('The app is shutting down.');
      released.open();
      expect(await (await call).json()).toMatchObject({ result: { content: [{ text: 'done' }] } });
      await closing;
      await expect(send(`${app.base}/ready`, { method: 'GET' })).rejects.toThrow('ECONNREFUSED');
    });
  });

  it('several endpoints, each by its name', async () => {
    app = await TestApp.of(adapter, {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, name: 'orders', path: 'orders' }),
        McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin' }),
        TerminusModule,
      ],
      controllers: [TwoController],
    });
    await app.clientAt('admin').initialize();
    const { details } = await readiness(app);
    expect(details).toMatchObject({ orders: { status: 'up', sessions: 0 }, admin: { status: 'up', sessions: 1 } });
    await app.close();
  });

  describeRedis(
    'over Redis',
    () => {
      it('down within the time limit while Redis is unavailable or silent, and up again afterwards', async () => {
        const redis = await RedisServer.start();
        await start({ eras: 'legacy', backend: () => redisBackend(redis.url, { commandTimeoutMs: 2_000 }) });
        try {
          await expect.poll(() => readiness(app).then(({ details }) => details.mcp.status)).toBe('up');
          redis.pause();
          expect(await readiness(app)).toMatchObject({
            http: 503,
            details: { mcp: { status: 'down', sessionStore: 'down', eventStore: 'down', messageBus: 'down', live: 0 } },
          });
          redis.resume();
          await expect.poll(() => readiness(app).then(({ http }) => http)).toBe(200);
          await redis.kill();
          const { details } = await readiness(app);
          expect(details.mcp.message).toContain('The session store does not answer.');
          await redis.start();
          await expect.poll(() => readiness(app).then(({ http }) => http)).toBe(200);
        } finally {
          await app.app.close();
          await redis.stop();
        }
      });
    },
    'server',
  );
});
