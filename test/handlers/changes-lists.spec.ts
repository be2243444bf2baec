import { Inject, Injectable } from '@nestjs/common';
import {
  InjectMcp,
  type McpContext,
  McpCtx,
  McpRegistry,
  McpSessionService,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, serverInfo } from '../support/app.js';
import { eventually, officialClients, registryOf, testApps } from '../support/test-apps.js';
import { KINDS, page, type Kind } from '../support/kinds.js';
import { gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';

const LIST_OF: Readonly<Record<Kind, string>> = {
  tool: 'tools',
  resource: 'resources',
  template: 'resources',
  prompt: 'prompts',
};
const changed = (kind: Kind): string => `notifications/${LIST_OF[kind]}/list_changed`;

const handler = (): string => 'here';
/** Adds one entry. @returns what takes it back */
function register(registry: McpRegistry, kind: Kind, name: string): { remove(): boolean } {
  switch (kind) {
    case 'tool':
      return registry.registerTool({ name, handler });
    case 'resource':
      return registry.registerResource({ uri: `${name}://fixed`, name, handler });
    case 'template':
      return registry.registerResourceTemplate({ uriTemplate: `${name}://{id}`, name, handler });
    case 'prompt':
      return registry.registerPrompt({ name, handler });
  }
}

/** The next turn of the event loop, and those of whoever waits for it. */
const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(() => setImmediate(resolve)));

let entered = gate();
let hold = gate();

/** A tool that changes the lists while it is called. */
@Injectable()
class Plugins {
  constructor(@Inject(McpRegistry) private readonly registry: McpRegistry) {}

  @Tool({ name: 'load' })
  async load(@McpCtx() { signal }: McpContext): Promise<string> {
    register(this.registry, 'tool', 'loaded');
    entered.open();
    await hold.promise;
    return signal.aborted ? 'cancelled' : 'loaded';
  }

  /** There for as long as the call runs. */
  @Tool({ name: 'lend' })
  async lend(): Promise<void> {
    const lent = register(this.registry, 'tool', 'lent');
    entered.open();
    await hold.promise;
    lent.remove();
  }
}

describe.each(ONE_ADAPTER)('list_changed on %s', (adapter) => {
  const start = testApps(adapter, { sseAfterMs: 60_000, providers: [Plugins] });
  const connect = officialClients();
  const listening = async (app: TestApp) => {
    const client = await app.client().initialize();
    return { client, stream: await client.listen() };
  };

  /** Each process has a registry of its own, and tells of it: what is registered on all is told of by all. */
  const byEach = ({ nodes }: TestApp, times: number): number => times * nodes.length;

  it.each(KINDS)(
    'list_changed notifies every session of a %s that is added, changed and removed, once per turn',
    async (kind) => {
      const app = await start();
      const registry = registryOf(app);
      const sessions = [await listening(app), await listening(app), await listening(app)];
      const told = () => sessions.map(({ stream }) => gists(stream.messages));
      const expected = (times: number) => sessions.map(() => Array(byEach(app, times)).fill(changed(kind)));

      const entries = Array.from({ length: 20 }, (_, n) => register(registry, kind, `n${n}`));
      for (const { stream } of sessions) await stream.count(byEach(app, 1));
      await nextTurn();
      expect(told()).toEqual(expected(1));
      expect((await page(sessions[0]!.client, kind)).names).toHaveLength(kind === 'tool' ? 22 : 20);

      // What comes and goes within one turn is a change, too: somebody may have listed in between.
      register(registry, kind, 'brief').remove();
      for (const { stream } of sessions) await stream.count(byEach(app, 2));
      // One turn after the other.
      for (const entry of entries.slice(0, 3)) {
        entry.remove();
        await nextTurn();
      }
      for (const { stream } of sessions) await stream.count(byEach(app, 5));
      await nextTurn();
      expect(told()).toEqual(expected(5));
      for (const { stream } of sessions) stream.destroy();
    },
  );

  it('list_changed reaches the handlers of official clients', async () => {
    const app = await start();
    const told: string[] = [];
    const clients = [await connect(app), await connect(app)];
    for (const client of clients) {
      for (const list of ['tools', 'resources', 'prompts'] as const) {
        client.setNotificationHandler(`notifications/${list}/list_changed`, () => void told.push(list));
      }
    }
    await app.settled({ readers: 2 });
    for (const kind of KINDS) register(registryOf(app), kind, 'late');
    await eventually(() => {
      const each = byEach(app, clients.length);
      expect(told.toSorted()).toEqual(['prompts', 'resources', 'tools'].flatMap((list) => Array(each).fill(list)));
    });
  });

  it('list_changed is kept for a session that does not listen, also one without a live copy', async () => {
    const app = await start();
    const [deaf, recorded] = [await app.client().initialize(), await app.client().initialize()];
    await app.release(recorded.sessionId!);
    await app.settled({ sessions: 2, live: 1 });
    register(registryOf(app), 'prompt', 'late');
    // It was told, not woken.
    await app.settled({ events: byEach(app, 2), live: 1 });
    for (const client of [deaf, recorded]) {
      const stream = await (await client.listen()).count(byEach(app, 1));
      expect(gists(stream.messages)).toEqual(Array(byEach(app, 1)).fill(changed('prompt')));
      stream.destroy();
    }
  });

  it('list_changed notifies a rebuilt session once', async () => {
    const app = await start();
    const { client, stream } = await listening(app);
    await app.release(client.sessionId!);
    expect(await stream.end()).toBe('end');
    // The next message rebuilds it; its list is that of now.
    register(registryOf(app), 'tool', 'between');
    expect((await page(client, 'tool')).names).toEqual(['load', 'lend', 'between']);
    const again = await (await client.listen()).count(byEach(app, 1));
    register(registryOf(app), 'tool', 'after');
    await again.count(byEach(app, 2));
    await nextTurn();
    expect(gists(again.messages)).toEqual(Array(byEach(app, 2)).fill(changed('tool')));
    again.destroy();
  });

  it('list_changed does not notify earlier or later subscribers', async () => {
    const app = await start();
    const [{ client: gone, stream: over }, stays] = [await listening(app), await listening(app)];
    await (await gone.delete()).text();
    expect(await over.end()).toBe('end');
    register(registryOf(app), 'tool', 'late');
    await stays.stream.count(byEach(app, 1));
    const later = await listening(app);
    register(registryOf(app), 'resource', 'later');
    await later.stream.count(byEach(app, 1));
    expect(gists(over.messages)).toEqual([]);
    expect(gists(later.stream.messages)).toEqual(Array(byEach(app, 1)).fill(changed('resource')));
    for (const { stream } of [stays, later]) stream.destroy();
  });

  it('list_changed notifies all sessions of the change that a call makes, its own too', async () => {
    [entered, hold] = [gate(), gate()];
    const app = await start();
    const [mine, other] = [await listening(app), await listening(app)];
    const posted = mine.client.call('load');
    await entered.promise;
    await other.stream.count(1);
    hold.open();
    const response = await posted;
    const isStream = response.header('content-type') === 'text/event-stream';
    const onPost = isStream ? await drained(response.sse()) : [await response.json()];
    await app.settled({ inFlight: 0 });
    await nextTurn();
    const told = [...gists(onPost), ...gists(mine.stream.messages)];
    expect(told.filter((what) => what === changed('tool'))).toHaveLength(1);
    expect(told).toContain('loaded');
    expect(gists(other.stream.messages)).toEqual([changed('tool')]);
    for (const { stream } of [mine, other]) stream.destroy();
  });

  it('list_changed notifies the session of a cancelled call of the changes that the call undoes', async () => {
    [entered, hold] = [gate(), gate()];
    const app = await start();
    const [mine, other] = [await listening(app), await listening(app)];
    const posted = mine.client.call('lend', {}, { id: 'call' });
    await entered.promise;
    await other.stream.count(1);
    await mine.client.notify('notifications/cancelled', { requestId: 'call' });
    await drained((await posted).sse());
    hold.open();
    await other.stream.count(2);
    expect((await page(mine.client, 'tool')).names).not.toContain('lent');
    await mine.stream.until(({ messages }) => gists(messages).includes(changed('tool')));
    for (const { stream } of [mine, other]) stream.destroy();
  });
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
async function drained(stream: ReturnType<Awaited<ReturnType<RawClient['post']>>['sse']>): Promise<any[]> {
  await stream.end();
  return stream.messages;
}

@Injectable()
class Both {
  constructor(
    @Inject(McpSessionService) readonly main: McpSessionService,
    @InjectMcp(McpSessionService, 'admin') readonly admin: McpSessionService,
    @Inject(McpRegistry) readonly ofMain: McpRegistry,
    @InjectMcp(McpRegistry, 'admin') readonly ofAdmin: McpRegistry,
  ) {}
}

describe.each(ONE_ADAPTER)('list_changed of several endpoints on %s', (adapter) => {
  let app: TestApp;
  const both = () => app.app.get(Both);
  afterEach(() => app.close());

  it('list_changed of several endpoints notifies the sessions of its own endpoint', async () => {
    const imports = [
      McpStreamableModule.forRoot({ serverInfo }),
      McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin' }),
    ];
    app = await TestApp.of(adapter, { imports, providers: [Both] });
    const [one, two] = [await app.client().initialize(), await app.clientAt('admin').initialize()];
    const [atOne, atTwo] = [await one.listen(), await two.listen()];
    register(both().ofMain, 'tool', 'public');
    await atOne.count(1);
    register(both().ofAdmin, 'prompt', 'private');
    await atTwo.count(1);
    await nextTurn();
    expect(gists(atOne.messages)).toEqual([changed('tool')]);
    expect(gists(atTwo.messages)).toEqual([changed('prompt')]);
    atOne.destroy();
    atTwo.destroy();
  });
});
