import { Subject, type Subscription as RxSubscription } from 'rxjs';
import { ManualClock } from '../../../testing/manual-clock.js';
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { logger } from '../../calls/operator-log.js';
import type { McpCall } from '../../calls/mcp-call.js';
import type { McpDispatcher } from '../../calls/mcp-dispatcher.js';
import type { McpReply, PendingReply, StreamFlow } from '../../calls/reply.js';
import type { ChangeHint } from '../../nodes/change-feed.js';
import { McpError } from '../../protocol/errors.js';
import type { JsonRpcRequest } from '../../protocol/json-rpc.js';
import type { McpEvent } from '../../protocol/events.js';
import { ModernClient } from './modern-client.js';
import { Subscriptions } from './subscriptions.js';
import { seededRandom } from '../../../../test/support/share.js';
import { eventually } from '../../../../test/support/eventually.js';

interface Made {
  capabilities?: McpDispatcher['capabilities'];
  admits?: NonNullable<McpDispatcher['admitsResource']>;
  maxSubscriptions?: number;
  maxSubscriptionsPerPrincipal?: number;
}

const ID = 'io.modelcontextprotocol/subscriptionId';
const serverInfo = { name: 'test', version: '1.0.0' };
const all = { listChanged: true };
const CAPABILITIES = { tools: all, prompts: all, resources: { ...all, subscribe: true } };

/** Returns what the client reads, short: `ack`, `tools`, a URI, `end`. */
function gist({ data }: McpEvent): string {
  const { method, params, result } = JSON.parse(data!);
  if (result) return 'end';
  if (method === 'notifications/subscriptions/acknowledged') return 'ack';
  return params.uri ?? method.split('/')[1];
}

/** Holds one response, whose reader is as fast as the test decides. */
class Response implements StreamFlow {
  paused = false;
  readonly resumed$ = new Subject<void>();
  readonly events: McpEvent[] = [];
  completed = false;
  #subscription: RxSubscription | undefined;

  open(reply: McpReply): this {
    if (reply.kind !== 'events') throw new Error(`a reply of kind ${reply.kind}`);
    this.#subscription = reply.open(this).subscribe({
      next: (event) => this.events.push(event),
      complete: () => (this.completed = true),
    });
    return this;
  }
  get gists(): string[] {
    return this.events.map(gist);
  }
  // oxlint-disable-next-line typescript/no-explicit-any -- the test looks into it
  message(index: number): any {
    return JSON.parse(this.events.at(index)!.data!);
  }
  resume(): void {
    this.paused = false;
    this.resumed$.next();
  }
  close(): void {
    this.#subscription?.unsubscribe();
  }
}

describe('Subscriptions', () => {
  let changes$: Subject<ChangeHint>;
  let clock: ManualClock;
  let subscriptions: Subscriptions;
  let reported: MockInstance<typeof logger.error>;
  const request = (notifications: unknown, id: string | number = 1): JsonRpcRequest => ({
    jsonrpc: '2.0',
    id,
    method: 'subscriptions/listen',
    params: { notifications },
  });
  const http = (principal?: string) => ({ era: 'modern', principal, request: { of: principal } }) as const;
  const make = ({ capabilities = () => CAPABILITIES, admits, ...limits }: Made = {}): Subscriptions =>
    (subscriptions = new Subscriptions(
      new ModernClient({ event: () => {} }),
      { changes$ },
      { capabilities, ...(admits && { admitsResource: admits }) },
      { serverInfo, maxSubscriptions: 10, maxSubscriptionsPerPrincipal: 3, ...limits },
      undefined,
      undefined,
      clock,
    ));
  const listen = (notifications: unknown, principal?: string, id?: string | number): PendingReply =>
    subscriptions.listen(http(principal), request(notifications, id));
  const opened = async (notifications: unknown, principal?: string, id?: string | number): Promise<Response> =>
    new Response().open(await listen(notifications, principal, id).reply);
  const expectNothingLeft = () => expect([subscriptions.count, changes$.observed]).toEqual([0, false]);

  beforeEach(() => {
    changes$ = new Subject();
    clock = new ManualClock();
    reported = vi.spyOn(logger, 'error').mockImplementation(() => {});
    make();
  });

  afterEach(() => reported.mockRestore());

  it('Subscriptions end gracefully, with a result under the id of the request', async () => {
    const [one, two] = [await opened({ toolsListChanged: true }, 'ann', 7), await opened({ toolsListChanged: true })];
    subscriptions.close();
    subscriptions.close();
    for (const response of [one, two]) expect([response.gists, response.completed]).toEqual([['ack', 'end'], true]);
    expect(one.message(1)).toEqual({
      jsonrpc: '2.0',
      id: 7,
      result: { resultType: 'complete', _meta: { [ID]: 7, 'io.modelcontextprotocol/serverInfo': serverInfo } },
    });
    expectNothingLeft();
    expect(() => listen({ toolsListChanged: true })).toThrow(
      expect.objectContaining({ code: 'UNAVAILABLE', headers: { 'Retry-After': '1' } }) as Error,
    );
  });

  it('Subscriptions are refused for a malformed filter, and nothing of them is kept', () => {
    expect(() => listen(undefined)).toThrow(expect.objectContaining({ code: 'INVALID_PARAMS' }) as Error);
    expectNothingLeft();
  });

  describe('for a caller', () => {
    /** Decides which caller may read which URI. */
    const admits = vi.fn(async (uri: string, { principal, request }: McpCall) => {
      expect(request).toEqual({ of: principal });
      return uri === 'a://public' || uri === `a://${principal}`;
    });

    it('subscriptions of a caller leave out resources that are hidden from the caller', async () => {
      make({ admits });
      const uris = ['a://public', 'a://ann', 'a://bob', 'nowhere://'];
      const [ann, bob] = await Promise.all(
        ['ann', 'bob'].map((principal) => opened({ resourceSubscriptions: uris }, principal)),
      );
      expect(ann!.message(0).params.notifications).toEqual({ resourceSubscriptions: ['a://public', 'a://ann'] });
      expect(bob!.message(0).params.notifications).toEqual({ resourceSubscriptions: ['a://public', 'a://bob'] });
      for (const uri of uris) changes$.next({ uri });
      expect(ann!.gists).toEqual(['ack', 'a://public', 'a://ann']);
      expect(bob!.gists).toEqual(['ack', 'a://public', 'a://bob']);
    });

    it('subscriptions of a caller run guards once for each URI, and stop when the caller has left', async () => {
      admits.mockClear();
      make({ admits });
      const uris = Array.from({ length: 120 }, (_, n) => `a://${n}`);
      const response = await opened({ resourceSubscriptions: [...uris, ...uris] }, 'x');
      expect(admits).toHaveBeenCalledTimes(120);
      expect(response.gists).toEqual(['ack', 'end']);
      admits.mockClear();
      listen({ resourceSubscriptions: uris }, 'x').cancel();
      await new Promise(setImmediate);
      await new Promise(setImmediate);
      expect(admits.mock.calls.length).toBeLessThanOrEqual(1);
      expectNothingLeft();
    });

    it('subscriptions of a caller run guards for one URI in a turn of the event loop, and for 50 at the same time', async () => {
      let answering = 0;
      const waiting: (() => void)[] = [];
      make({
        admits: () => {
          answering += 1;
          return new Promise((resolve) => waiting.push(() => resolve(true)));
        },
      });
      const serving = listen({ resourceSubscriptions: Array.from({ length: 60 }, (_, n) => `a://${n}`) });
      for (let turn = 1; turn <= 5; turn += 1) {
        await new Promise(setImmediate);
        expect(answering).toBeLessThanOrEqual(turn + 1);
      }
      await eventually(() => expect(answering).toBe(50));
      for (const answer of waiting.splice(0)) answer();
      await eventually(() => expect(answering).toBe(60));
      for (const answer of waiting.splice(0)) answer();
      await serving.reply;
    });

    it('subscriptions of a caller notify after the acknowledgement of changes that came while guards decided', async () => {
      let decide: ((admitted: boolean) => void) | undefined;
      make({ admits: (uri) => (uri === 'a://slow' ? new Promise((resolve) => (decide = resolve)) : NO) });
      const serving = listen({ resourceSubscriptions: ['a://hidden', 'a://slow'], toolsListChanged: true });
      await eventually(() => expect(decide).toBeDefined());
      for (const uri of ['a://slow', 'a://hidden', 'a://slow']) changes$.next({ uri });
      changes$.next({ list: 'tools' });
      changes$.next({ list: 'prompts' });
      decide!(true);
      const reply = await serving.reply;
      changes$.next({ uri: 'a://slow' });
      expect(new Response().open(reply).gists).toEqual(['ack', 'tools', 'a://slow']);
    });
  });

  describe('that a caller opens and closes again and again', () => {
    const uris = Array.from({ length: 999 }, (_, n) => `a://${n}`);
    const openAndClose = (filter: object, principal?: string): void => listen(filter, principal).cancel();

    it('M7: Subscriptions that a caller opens and closes again and again are refused with 429 above 10,000 names at once; 100 of them come back in a second', async () => {
      for (let n = 0; n < 10; n++) openAndClose({ resourceSubscriptions: uris }, 'ann');
      expect(() => listen({ resourceSubscriptions: uris }, 'ann')).toThrow(
        expect.objectContaining({ code: 'TOO_MANY_REQUESTS', headers: { 'Retry-After': '10' } }) as Error,
      );
      await clock.advance(1_000);
      for (let n = 0; n < 100; n++) openAndClose({ toolsListChanged: true }, 'ann');
      expect(() => listen({ toolsListChanged: true }, 'ann')).toThrow(
        expect.objectContaining({ code: 'TOO_MANY_REQUESTS', headers: { 'Retry-After': '1' } }) as Error,
      );
      expectNothingLeft();
    });

    it('M7: Subscriptions that a caller opens and closes again and again take nothing from other callers', () => {
      for (let n = 0; n < 10; n++) openAndClose({ resourceSubscriptions: uris }, 'ann');
      expect(() => openAndClose({ resourceSubscriptions: uris }, 'bob')).not.toThrow();
      expect(() => openAndClose({ resourceSubscriptions: uris })).not.toThrow();
    });
  });

  it('Subscriptions notify of all that was asked for when changes may have been missed', async () => {
    const response = await opened({ promptsListChanged: true, resourceSubscriptions: ['a://1'] });
    changes$.next('missed');
    expect(response.gists).toEqual(['ack', 'prompts', 'a://1']);
  });

  it('Subscriptions end gracefully when no further changes can come', async () => {
    const response = await opened({ toolsListChanged: true });
    changes$.complete();
    expect([response.gists, response.completed]).toEqual([['ack', 'end'], true]);
    const late = await Promise.resolve(listen({ toolsListChanged: true }).reply).catch((error: unknown) => error);
    expect(late).toMatchObject({ code: 'UNAVAILABLE' });
    expectNothingLeft();
  });

  describe('that end before the response is opened', () => {
    it('Subscriptions that end before the response is opened are refused while guards decide, also when they never do', async () => {
      let signal: AbortSignal | undefined;
      make({
        admits: (_uri, context) => {
          signal = context.signal;
          return new Promise(() => {});
        },
      });
      const serving = listen({ resourceSubscriptions: ['a://1'] }, 'ann', 5);
      await Promise.resolve();
      subscriptions.close();
      await expect(serving.reply).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      expect(signal!.aborted).toBe(true);
      expectNothingLeft();
    });

    it('Subscriptions that end before the response is opened are acknowledged and ended once the response is opened', async () => {
      const reply = await listen({ toolsListChanged: true }).reply;
      changes$.next({ list: 'tools' });
      subscriptions.close();
      const response = new Response().open(reply);
      expect([response.gists, response.completed]).toEqual([['ack', 'tools', 'end'], true]);
      expectNothingLeft();
    });

    it.each(['before', 'after'])(
      'Subscriptions that end before the response is opened leave nothing when the client leaves %s the reply',
      async (when) => {
        const serving = listen({ toolsListChanged: true });
        if (when === 'after') await serving.reply;
        serving.cancel();
        serving.cancel();
        expectNothingLeft();
        const reply = await serving.reply;
        if (reply.kind !== 'events') return;
        const late = new Response().open(reply);
        expect([late.events, late.completed]).toEqual([[], true]);
      },
    );
  });

  it.each([
    ['a refusal', new McpError('UNSUPPORTED_PROTOCOL_VERSION', 'not here'), 'UNSUPPORTED_PROTOCOL_VERSION', 0],
    ['a fault', new Error('secret'), 'INTERNAL_ERROR', 1],
  ])('Subscriptions pass on %s of the server', async (_what, error, code, faults) => {
    make({ capabilities: () => Promise.reject(error) });
    const refused = await Promise.resolve(listen({ toolsListChanged: true }, undefined, 'x').reply).catch(
      (reason: unknown) => reason,
    );
    expect(refused).toMatchObject({ code });
    expect((refused as Error).message).not.toContain('secret');
    expect(reported).toHaveBeenCalledTimes(faults);
    expectNothingLeft();
  });

  it('Subscriptions leave nothing behind, in any order of events', async () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = seededRandom(seed);
      const chance = (probability: number): boolean => random() < probability;
      changes$ = new Subject();
      const undecided: ((admitted: boolean) => void)[] = [];
      make({ maxSubscriptions: 6, admits: () => new Promise((resolve) => undecided.push(resolve)) });
      const servings: PendingReply[] = [];
      const responses: Response[] = [];
      const steps = [
        () => {
          const uris = chance(0.5) ? ['a://1', 'a://2'] : [];
          const filter = { toolsListChanged: chance(0.5), resourceSubscriptions: uris };
          try {
            const serving = listen(filter, chance(0.5) ? 'ann' : undefined);
            servings.push(serving);
            Promise.resolve(serving.reply).then(
              (reply) => reply.kind === 'events' && chance(0.8) && responses.push(new Response().open(reply)),
              () => {},
            );
          } catch (error) {
            expect(error).toBeInstanceOf(McpError);
          }
        },
        () => undecided.splice(0, 2).forEach((decide) => decide(chance(0.7))),
        () => servings.length > 0 && servings[Math.floor(random() * servings.length)]!.cancel(),
        () => responses.splice(Math.floor(random() * responses.length), 1)[0]?.close(),
        () => changes$.next(chance(0.1) ? 'missed' : chance(0.5) ? { list: 'tools' } : { uri: 'a://1' }),
        () => responses.forEach((response) => (chance(0.5) ? (response.paused = true) : response.resume())),
        () => new Promise(setImmediate),
      ];
      for (let step = 0; step < 80; step++) {
        const done: unknown = steps[Math.floor(random() * steps.length)]!();
        if (done instanceof Promise) await done;
      }
      const all = [...responses];
      subscriptions.close();
      await new Promise(setImmediate);
      for (const serving of servings) serving.cancel();
      for (const response of all) {
        // Its client had gone before it was opened.
        if (response.events.length === 0) expect(response.completed).toBe(true);
        else expect(response.gists.indexOf('ack')).toBe(0);
        expect(response.gists.indexOf('end')).toBe(response.completed ? response.events.length - 1 : -1);
      }
      expectNothingLeft();
    }
  });
});

const NO = Promise.resolve(false);
