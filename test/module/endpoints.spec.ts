import { Inject, Injectable, type CanActivate } from '@nestjs/common';
import {
  getMcpToken,
  InjectMcp,
  McpOptionError,
  McpSessionService,
  type McpStreamableExtras,
  McpStreamableModule,
} from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemorySessionStore,
  InMemoryStateStore,
  McpEventStore,
  McpSessionStore,
  McpStateStore,
} from 'nestjs-mcp-streamable/stores';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo, startFailure, whoami } from '../support/app.js';
import { expectRefusal, NO_SUCH_SESSION } from '../support/refusal.js';
import { RecordedLog } from '../support/recorded-log.js';
import { serverSaying } from '../support/scripted-server.js';

@Injectable()
class Watcher {
  constructor(
    @InjectMcp(McpSessionService, 'public') readonly publicly: McpSessionService,
    @InjectMcp(McpSessionService, 'internal') readonly internally: McpSessionService,
  ) {}
}

const endpoint = (who: string, extras: McpStreamableExtras = {}) =>
  McpStreamableModule.forRoot({ serverInfo, server: () => serverSaying(() => who), path: who, ...extras });
const named = (name: string, extras: McpStreamableExtras = {}) => endpoint(name, { name, ...extras });

describe.each(ONE_ADAPTER)('two endpoints in one app on %s', (adapter) => {
  describe('with names', () => {
    let app: TestApp;
    const services = () => [app.app.get(Watcher).publicly, app.app.get(Watcher).internally] as const;
    afterEach(() => app.close());

    const start = async (extras: McpStreamableExtras = {}): Promise<void> => {
      const imports = [named('public'), named('internal', extras)];
      app = await TestApp.of(adapter, { imports, providers: [Watcher] });
    };

    it('two endpoints with names serve each their own', async () => {
      await start();
      expect(await whoami(await app.clientAt('public').initialize())).toBe('public');
      expect(await whoami(await app.clientAt('internal').initialize())).toBe('internal');
    });

    it('two endpoints with names have services of their own, injected by name', async () => {
      await start();
      const [publicly, internally] = services();
      expect(publicly).not.toBe(internally);
      expect(app.app.get(getMcpToken(McpSessionService, 'public'), { strict: false })).toBe(publicly);
      const one = await app.clientAt('public').initialize();
      const two = await app.clientAt('internal').initialize();
      expect((await publicly.list()).map(({ id }) => id)).toEqual([one.sessionId]);
      expect((await internally.list()).map(({ id }) => id)).toEqual([two.sessionId]);
      expect(await internally.terminateAll()).toBe(1);
      expect(await whoami(one)).toBe('public');
    });

    it('two endpoints with names do not know the sessions of each other', async () => {
      await start();
      const one = await app.clientAt('public').initialize();
      const two = app.clientAt('internal');
      two.sessionId = one.sessionId;
      await expectRefusal(await two.call('whoami', {}, { id: 'x' }), { ...NO_SUCH_SESSION, id: 'x' });
      await expectRefusal(await two.get(), NO_SUCH_SESSION);
      await expectRefusal(await two.delete(), NO_SUCH_SESSION);
      // And a lost session is begun anew (S3).
      await two.initialize();
      expect(two.sessionId).not.toBe(one.sessionId);
      expect(await whoami(one)).toBe('public');
    });

    it('two endpoints with names have guards of their own', async () => {
      const closed: CanActivate = { canActivate: () => false };
      await start({ guards: [closed] });
      const two = app.clientAt('internal');
      await expectRefusal(await two.post(two.initializeMessage()), { status: 403, code: -32000 });
      expect(await whoami(await app.clientAt('public').initialize())).toBe('public');
    });

    it('two endpoints with names may lie one below the other', async () => {
      const imports = [named('public', { path: 'mcp' }), named('internal', { path: 'mcp/internal' })];
      app = await TestApp.of(adapter, { imports, providers: [Watcher] });
      expect(await whoami(await app.clientAt('mcp').initialize())).toBe('public');
      expect(await whoami(await app.clientAt('mcp/internal').initialize())).toBe('internal');
    });

    it('the first may be without a name, and is then injected by its class', async () => {
      @Injectable()
      class Both {
        constructor(
          @Inject(McpSessionService) readonly plain: McpSessionService,
          @InjectMcp(McpSessionService) readonly same: McpSessionService,
          @InjectMcp(McpSessionService, 'internal') readonly internally: McpSessionService,
        ) {}
      }
      const imports = [endpoint('public'), named('internal')];
      const other = await TestApp.of(adapter, { imports, providers: [Both] });
      const { plain, same, internally } = other.app.get(Both);
      const client = await other.clientAt('public').initialize();
      expect(plain).toBe(same);
      expect((await plain.list()).map(({ id }) => id)).toEqual([client.sessionId]);
      expect(await internally.list()).toEqual([]);
      await other.close();
      await start();
    });

    it('the stores of an endpoint are injected by their tokens, and by name', async () => {
      @Injectable()
      class Stores {
        constructor(
          @Inject(McpSessionStore) readonly sessions: McpSessionStore,
          @Inject(McpEventStore) readonly events: McpEventStore,
          @Inject(McpStateStore) readonly states: McpStateStore,
          @InjectMcp(McpSessionStore, 'internal') readonly internalSessions: McpSessionStore,
          @InjectMcp(McpEventStore, 'internal') readonly internalEvents: McpEventStore,
          @InjectMcp(McpStateStore, 'internal') readonly internalStates: McpStateStore,
        ) {}
      }
      const own = { sessionStore: new InMemorySessionStore(), stateStore: new InMemoryStateStore() };
      const internal = McpStreamableModule.forRoot({ serverInfo, name: 'internal', path: 'internal', ...own });
      const other = await TestApp.of(adapter, { imports: [endpoint('public'), internal], providers: [Stores] });
      const stores = other.app.get(Stores);
      const client = await other.clientAt('public').initialize();
      expect((await stores.sessions.list()).map(({ id }) => id)).toEqual([client.sessionId]);
      expect(stores.internalSessions).toBe(own.sessionStore);
      expect(stores.internalStates).toBe(own.stateStore);
      expect(stores.events).toBeInstanceOf(InMemoryEventStore);
      expect(stores.internalEvents).not.toBe(stores.events);
      expect(stores.states).not.toBe(own.stateStore);
      expect(other.app.get(getMcpToken(McpSessionStore, 'internal'), { strict: false })).toBe(own.sessionStore);
      await other.close();
      await start();
    });

    it('a name that no endpoint has cannot be injected', async () => {
      @Injectable()
      class Mistaken {
        constructor(@InjectMcp(McpSessionService, 'intern') readonly sessions: McpSessionService) {}
      }
      const imports = [named('public'), named('internal')];
      await expect(TestApp.of(adapter, { imports, providers: [Mistaken] })).rejects.toThrow(/McpSessionService:intern/);
      await start();
    });

    it('by its class the service of an endpoint with a name cannot be injected', async () => {
      @Injectable()
      class Mistaken {
        constructor(@Inject(McpSessionService) readonly sessions: McpSessionService) {}
      }
      const imports = [named('public'), named('internal')];
      await expect(TestApp.of(adapter, { imports, providers: [Mistaken] })).rejects.toThrow(/McpSessionService/);
      await start();
    });
  });

  it.each([
    ['the same name', () => [named('public'), named('public', { path: 'other' })], '"public"'],
    ['no name twice', () => [endpoint('one'), endpoint('two')], 'no name'],
  ])('two endpoints in one app with %s keep the app from starting', async (_, imports, says) => {
    const log = new RecordedLog().attach();
    const error = await startFailure(adapter, () => ({ imports: imports() }));
    log.release();
    expect(error).toBeInstanceOf(McpOptionError);
    expect((error as McpOptionError).option).toBe('name');
    expect(error.message).toContain('"name"');
    expect(error.message).toContain(says);
  });
});
