import { Injectable } from '@nestjs/common';
import { McpRegistry, Tool } from 'nestjs-mcp-streamable';
import type { McpStateStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';

const KEEP_ALIVE_MS = 15_000;

@Injectable()
class Tools {
  @Tool({ name: 'refund' })
  refund(): string {
    return 'refunded';
  }
  @Tool({ name: 'search' })
  search(): string {
    return 'found';
  }
}

/** A store that two nodes share; a test holds its answers. */
class SharedStore implements McpStateStore {
  readonly kept = new Map<string, unknown>();
  /** Each read and write waits for it. */
  held: Promise<void> | undefined;

  async get(key: string): Promise<unknown> {
    const value = structuredClone(this.kept.get(key));
    await this.held;
    return value;
  }
  async set(key: string, value: unknown): Promise<void> {
    await this.held;
    this.kept.set(key, structuredClone(value));
  }
  delete(key: string): Promise<boolean> {
    return Promise.resolve(this.kept.delete(key));
  }
}

describe.each(ONE_ADAPTER)('handlers that are switched off on several nodes, on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let stateStore: SharedStore;
  let [a, b]: Member[] = [];

  const start = (options = {}): Promise<Member> =>
    deployment.member({ adapter, stateStore, keepAliveMs: KEEP_ALIVE_MS, providers: [Tools], ...options });
  const registry = ({ app }: Member): McpRegistry => app.app.get(McpRegistry);
  const off = (member: Member): string[] =>
    registry(member)
      .list('tool')
      .flatMap(({ key, disabled }) => (disabled ? [`${key}: ${disabled.reason}`] : []));

  beforeEach(async () => {
    clock = new ManualClock();
    deployment = new Deployment(clock);
    stateStore = new SharedStore();
    [a, b] = [await start(), await start()];
  });
  afterEach(() => deployment.close());

  it('handlers that are switched off on several nodes are off on each of them, and their clients hear of it wherever they listen', async () => {
    const client = await b!.app.client().initialize();
    const stream = await client.listen();
    await registry(a!).disable('refund', { reason: 'Not now.' });
    await clock.advance(0);
    expect([off(a!), off(b!)]).toEqual([['refund: Not now.'], ['refund: Not now.']]);
    await stream.count(1);
    expect(stream.messages[0].method).toBe('notifications/tools/list_changed');
    for (const member of [a!, b!]) {
      const answer = await (await at(member.app, client).call('refund')).json();
      expect(answer.result).toMatchObject({
        isError: true,
        content: [{ text: 'The tool "refund" is switched off: Not now.' }],
      });
    }
    await registry(b!).enable('refund');
    await clock.advance(0);
    expect([off(a!), off(b!)]).toEqual([[], []]);
    expect((await (await at(a!.app, client).call('refund')).json()).result).toMatchObject({
      content: [{ text: 'refunded' }],
    });
    stream.destroy();
  });

  it.each(['the bus says that it is back', 'the next sweep'] as const)(
    'handlers that are switched off on several nodes are off on a node that missed the signal with %s',
    async (how) => {
      b!.bus.fate = ({ type }) => (type === 'switched' ? 'lost' : 'arrives');
      await registry(a!).disable('refund', { reason: 'Not now.' });
      await clock.advance(0);
      expect(off(b!)).toEqual([]);
      if (how === 'the next sweep') await clock.advance(KEEP_ALIVE_MS);
      else b!.bus.reconnect();
      await clock.advance(0);
      expect(off(b!)).toEqual(['refund: Not now.']);
    },
  );

  it('handlers that are switched off on several nodes are off on a node whose bus came between the signal and the write of the store', async () => {
    b!.bus.fate = ({ type }) => (type === 'switched' ? 'lost' : 'arrives');
    let release = (): void => {};
    stateStore.held = new Promise((resolve) => (release = resolve));
    const disabled = registry(a!).disable('refund', { reason: 'Not now.' });
    await clock.advance(0);
    b!.bus.fate = () => 'arrives';
    b!.bus.reconnect();
    await clock.advance(0);
    stateStore.held = undefined;
    release();
    await disabled;
    await clock.advance(0);
    expect(off(b!)).toEqual(['refund: Not now.']);
  });

  it('handlers that are switched off on several nodes are off on a node that starts later', async () => {
    const stream = await (await b!.app.client().initialize()).listen();
    await registry(a!).disable('refund', { reason: 'Not now.' });
    await stream.count(1);
    await clock.advance(0);
    const heard = stream.messages.length;
    const late = await start();
    await clock.advance(KEEP_ALIVE_MS);
    // Nothing has changed for those that know it.
    expect(stream.messages).toHaveLength(heard);
    stream.destroy();
    expect(off(late)).toEqual(['refund: Not now.']);
    const client: RawClient = await late.app.client().initialize();
    expect((await (await client.call('refund')).json()).result).toMatchObject({ isError: true });
  });

  it('handlers that are switched off on several nodes are all off when two nodes switch at the same moment and one write replaces the other', async () => {
    let release = (): void => {};
    stateStore.held = new Promise((resolve) => (release = resolve));
    // Neither hears of the other.
    for (const { bus } of [a!, b!]) bus.fate = () => 'lost';
    const both = [registry(a!).disable('refund', { reason: 'a' }), registry(b!).disable('search', { reason: 'b' })];
    await clock.advance(0);
    release();
    await Promise.all(both);
    stateStore.held = undefined;
    await clock.advance(2 * KEEP_ALIVE_MS);
    const all = ['refund: a', 'search: b'];
    expect([off(a!), off(b!), off(await start())]).toEqual([all, all, all]);
  });

  it('handlers that are switched off on several nodes are as the later change says, also by a node whose clock is behind', async () => {
    const early = await start({ clock: new ManualClock(clock.now() - 3_600_000) });
    await registry(a!).disable('refund', { reason: 'a' });
    await clock.advance(0);
    await registry(early).enable('refund');
    await clock.advance(KEEP_ALIVE_MS);
    expect([off(a!), off(b!), off(early)]).toEqual([[], [], []]);
    early.bus.fate = a!.bus.fate = () => 'lost';
    await registry(a!).disable('refund', { reason: 'again' });
    // This node has not heard of it.
    await registry(early).enable('refund');
    await clock.advance(2 * KEEP_ALIVE_MS);
    expect([off(a!), off(b!), off(early)]).toEqual([[], [], []]);
  });

  it('handlers that are switched off on several nodes are not those of another endpoint, and no message of another version harms', async () => {
    const change = { kind: 'tool', key: 'refund', off: true, at: clock.now() };
    const messages = [
      { type: 'switched', owner: 'path.other:switches', switches: [change] },
      { type: 'switched', owner: 'path.mcp:switches', switches: [{ ...change, at: 'now' }, null, 'x'] },
      { type: 'switched', owner: 'path.mcp:switches' },
      { type: 'switched' },
    ];
    for (const message of messages) a!.bus.broadcast(message);
    await clock.advance(0);
    expect([off(a!), off(b!)]).toEqual([[], []]);
  });
});
