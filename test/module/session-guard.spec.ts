import { HttpException, Inject, Injectable, Module, type ExecutionContext } from '@nestjs/common';
import { McpSessionGuard, McpStreamableModule, type McpSessionInfo } from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo, whoami } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';
import { expectGenericFailure, expectRefusal, NO_SESSION_ID, NO_SUCH_SESSION } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';
import { serverSaying } from '../support/scripted-server.js';

interface Request {
  headers: Record<string, string | undefined>;
}

/** Something of the app's own, that a session guard asks. */
@Injectable()
class Desk {
  /** Sessions that are locked, and the exception to say so with. */
  readonly locked = new Map<string, Error>();
  /** Who may use any session. */
  readonly operators = new Set<string>();
  asked: [sessionId: string, principal: string | undefined][] = [];
}

@Module({ providers: [Desk], exports: [Desk] })
class DeskModule {}

@Injectable()
class DeskGuard extends McpSessionGuard {
  constructor(@Inject(Desk) private readonly desk: Desk) {
    super();
  }

  protected override async canAccess(
    session: McpSessionInfo,
    request: Request,
    principal: string | undefined,
  ): Promise<boolean> {
    this.desk.asked.push([session.id, principal]);
    await Promise.resolve();
    const locked = this.desk.locked.get(session.id);
    if (locked) throw locked;
    if (principal !== undefined && this.desk.operators.has(principal)) return true;
    return (await super.canAccess(session, request, principal)) && request.headers['x-tenant'] !== 'other';
  }
}

/** Overrides more than it may. */
@Injectable()
class CarelessGuard extends McpSessionGuard {
  override canActivate(_context: ExecutionContext): Promise<boolean> {
    return Promise.resolve(true);
  }
}

describe.each(ONE_ADAPTER)('a session guard of the app on %s', (adapter) => {
  let app: TestApp;
  let desk: Desk;
  afterEach(() => app.close());

  async function start(sessionGuard: typeof McpSessionGuard | typeof DeskGuard = DeskGuard): Promise<void> {
    app = await TestApp.of(adapter, {
      imports: [
        DeskModule,
        McpStreamableModule.forRoot({
          serverInfo,
          server: () => serverSaying(() => 'me'),
          imports: [DeskModule],
          guards: [trustingGuard],
          sessionGuard,
        }),
      ],
    });
    desk = app.app.get(Desk, { strict: false });
  }

  /** Every way to use a session; DELETE last, since it works. */
  const uses = (client: RawClient) => [
    () => client.call('whoami', {}, { id: 'x' }),
    () => client.get(),
    () => client.get('0_0'),
    () => client.delete(),
  ];
  const ids = ['x', null, null, null];

  it('a session guard of the app injects what it needs, and is asked on every use of a session, after the guards', async () => {
    await start();
    const ann = await app.clientAt('mcp', as('ann')).initialize();
    desk.asked = [];
    for (const use of uses(ann)) (await use()).destroy();
    expect(desk.asked).toEqual(Array.from({ length: 4 }, () => [ann.sessionId, 'ann']));
  });

  it('a session guard of the app is not asked where there is no session to use', async () => {
    await start();
    const client = app.clientAt('mcp', as('ann'));
    await expectRefusal(await client.call('whoami', {}, { id: 'x' }), { ...NO_SESSION_ID, id: 'x' });
    client.sessionId = 'no-such-session-here';
    await expectRefusal(await client.call('whoami', {}, { id: 'x' }), { ...NO_SUCH_SESSION, id: 'x' });
    const response = await client.post(client.initializeMessage());
    expect(response.status).toBe(200);
    expect(desk.asked).toEqual([]);
  });

  it('a session guard of the app narrows access: for whom it refuses the session does not exist', async () => {
    await start();
    const ann = await app.clientAt('mcp', as('ann')).initialize();
    ann.headers = { ...as('ann'), 'x-tenant': 'other' };
    for (const [index, use] of uses(ann).entries()) {
      await expectRefusal(await use(), { ...NO_SUCH_SESSION, id: ids[index]! });
    }
    ann.headers = as('ann');
    expect(await whoami(ann)).toBe('me');
  });

  it('a session guard of the app keeps what it does not override: others are still refused', async () => {
    await start();
    const ann = await app.clientAt('mcp', as('ann')).initialize();
    const bob = app.clientAt('mcp', as('bob'));
    bob.sessionId = ann.sessionId;
    for (const [index, use] of uses(bob).entries()) {
      await expectRefusal(await use(), { ...NO_SUCH_SESSION, id: ids[index]! });
    }
    expect(await app.service.list()).toHaveLength(1);
  });

  it('a session guard of the app widens access: an admitted caller uses the session of another principal', async () => {
    await start();
    desk.operators.add('op');
    const ann = await app.clientAt('mcp', as('ann')).initialize();
    const op = app.clientAt('mcp', as('op'));
    op.sessionId = ann.sessionId;
    expect(await whoami(op)).toBe('me');
    const stream = await op.listen();
    // Whose it is does not change.
    expect((await app.service.list()).map(({ principal }) => principal)).toEqual(['ann']);
    await expectRefusal(await op.post(op.initializeMessage()), { status: 400, code: -32600, id: 2 });
    expect((await op.delete()).status).toBe(204);
    expect(await stream.end()).toBe('end');
  });

  it('a session guard of the app may throw an HttpException of its own, which is the answer', async () => {
    await start();
    const ann = await app.clientAt('mcp', as('ann')).initialize();
    desk.locked.set(ann.sessionId!, new HttpException('This session is under review.', 423));
    for (const [index, use] of uses(ann).entries()) {
      const says = ['This session is under review.'];
      await expectRefusal(await use(), { status: 423, code: -32000, id: ids[index]!, says });
    }
    desk.locked.clear();
    expect(await whoami(ann)).toBe('me');
  });

  it('a session guard of the app that fails is an error of ours', async () => {
    await start();
    const ann = await app.clientAt('mcp', as('ann')).initialize();
    desk.locked.set(ann.sessionId!, new Error('the desk at 10.1.2.3 is closed'));
    const { message } = await expectGenericFailure(await ann.call('whoami', {}, { id: 'x' }), 'x');
    expect(message).not.toContain('10.1.2.3');
    expect(app.log.texts('error')).toEqual(['the desk at 10.1.2.3 is closed']);
  });

  it('a session guard of the app that skips the check of the base class admits no caller, and the log has the reason', async () => {
    await start(CarelessGuard);
    const client = app.clientAt('mcp', as('ann'));
    await expectGenericFailure(await client.post(client.initializeMessage()), null);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('"sessionGuard"')]);
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0 });
  });

  it('a session guard of the app that cannot be resolved keeps the app from starting, with its name', async () => {
    await start();
    const endpoint = McpStreamableModule.forRoot({ serverInfo, sessionGuard: DeskGuard });
    await expect(TestApp.of(adapter, { imports: [endpoint] })).rejects.toThrow(/DeskGuard/);
  });
});
