import {
  type CanActivate,
  Controller,
  Delete,
  Get,
  type ExecutionContext,
  Injectable,
  Param,
  ParseIntPipe,
  UseGuards,
} from '@nestjs/common';
import {
  Confirm,
  McpArgs,
  McpConfirmations,
  type McpContext,
  McpCtx,
  McpHandlerDefinitionError,
  McpRegistry,
  McpStreamableModule,
  McpToolCaller,
  Prompt,
  Tool,
  Tools,
} from 'nestjs-mcp-streamable';
import { InMemoryStateStore } from 'nestjs-mcp-streamable/stores';
import { createMcpTestClient, ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { gate, ONE_ADAPTER, startFailure, TestApp, type TestAppOptions } from '../support/app.js';
import type { ModernClient } from '../support/modern-client.js';
import { NodeBackend } from '../support/node-backend.js';
import { testApps } from '../support/test-apps.js';
import { as, decidesByArguments } from '../support/users.js';

const Order = z.object({ id: z.string().min(1), note: z.string().default('none') });
type Order = z.infer<typeof Order>;
const accept = { action: 'accept' };
const KEY = 'k'.repeat(32);

@Injectable()
class Nobody implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    decidesByArguments(context);
    return false;
  }
}

/** Replaces the function of a method, as decorators of libraries do. */
const wrapping: MethodDecorator = (_target, _key, descriptor: PropertyDescriptor) => {
  const { value } = descriptor as { value: (...args: unknown[]) => unknown };
  descriptor.value = function (this: unknown, ...args: unknown[]): unknown {
    return Reflect.apply(value, this, args);
  };
};

@Injectable()
class Shop {
  readonly effects: string[] = [];
  readonly questions: string[] = [];

  @Tool({ name: 'remove', inputSchema: Order })
  @Confirm(({ id, note }: Order) => `Remove the order ${id} (${note})?`)
  remove(@McpArgs('id') id: string): string {
    this.effects.push(`remove ${id}`);
    return `removed ${id}`;
  }

  @Tool({ name: 'archive', inputSchema: Order, confirm: ({ id }) => `Archive ${id}?` })
  archive(@McpArgs('id') id: string): string {
    this.effects.push(`archive ${id}`);
    return `archived ${id}`;
  }

  @Tool({ name: 'worded', inputSchema: Order })
  @Confirm('Remove {id} ({note})?')
  worded(): string {
    this.effects.push('worded');
    return 'worded';
  }

  @Tool({ name: 'wrapped' })
  @wrapping
  @Confirm('Really?')
  wrapped(): string {
    this.effects.push('wrapped');
    return 'wrapped';
  }

  @Tool({ name: 'brief', timeoutMs: 1_000 })
  @Confirm('Be brief?', { ttlMs: 60_000 })
  brief(): string {
    this.effects.push('brief');
    return 'brief';
  }

  @Tool({ name: 'forbidden', inputSchema: Order })
  @Confirm('Never asked?')
  @UseGuards(Nobody)
  forbidden(): string {
    this.effects.push('forbidden');
    return 'forbidden';
  }

  @Tool({ name: 'asks', inputSchema: Order })
  @Confirm('Go on?', { ttlMs: 60_000 })
  async asks(@McpCtx() ctx: McpContext): Promise<string> {
    const { action } = await ctx.elicit('sure', {
      message: 'Sure?',
      requestedSchema: { type: 'object', properties: {} },
    });
    this.effects.push('asks');
    return `asked: ${action}`;
  }

  @Tool({ name: 'once', inputSchema: Order, idempotency: { key: ({ id }) => id } })
  @Confirm('Once?')
  once(): string {
    this.effects.push('once');
    return `run ${this.effects.length}`;
  }

  @Tool({ name: 'long', inputSchema: Order, confirm: ({ note }) => note })
  long(): string {
    this.effects.push('long');
    return 'long';
  }

  @Tool({ name: 'broken', confirm: () => '' })
  broken(): string {
    this.effects.push('broken');
    return 'broken';
  }
}

@Controller('parcels')
class Parcels {
  @Delete(':number')
  @UseGuards({
    canActivate(context) {
      const { params } = context.switchToHttp().getRequest<{ params: Record<string, string> }>();
      if (params['number'] === '8') params['number'] = '9';
      return true;
    },
  })
  @Tool()
  @Confirm(({ number }) => `Throw away parcel ${number}?`)
  remove(@Param('number', ParseIntPipe) number: number): string {
    return `gone: ${number}`;
  }
}

interface Result {
  readonly resultType?: string;
  readonly requestState?: string;
  readonly inputRequests?: Record<string, { params: { message: string; mode: string } }>;
  readonly content?: readonly { readonly text: string }[];
  readonly isError?: boolean;
}

/** One call of a tool in the modern era, and its repetitions. */
class Rounds {
  constructor(
    private readonly client: ModernClient,
    readonly name: string,
    readonly args: object = {},
    private readonly capabilities: object = { elicitation: {} },
  ) {}

  async send(more: object = {}): Promise<Result> {
    const params = { name: this.name, arguments: this.args, ...more };
    const { result, error } = await this.client.ask('tools/call', params, { capabilities: this.capabilities });
    return (result ?? { content: [{ text: JSON.stringify(error) }] }) as Result;
  }

  async text(more: object = {}): Promise<string> {
    return (await this.send(more)).content?.[0]?.text ?? '';
  }

  /** Sends the call, and expects the question. */
  async asked(more: object = {}): Promise<{ key: string; message: string; requestState: string }> {
    const { resultType, inputRequests = {}, requestState = '' } = await this.send(more);
    expect(resultType).toBe('input_required');
    const [[key, { params }]] = Object.entries(inputRequests) as unknown as [[string, { params: { message: string } }]];
    return { key, message: params.message, requestState };
  }

  /** Sends the call, then the answer to its question. */
  async answered(answer: object = accept): Promise<string> {
    const asked = await this.asked();
    return this.text(answering(asked, answer));
  }
}

const answering = ({ key, requestState }: { key: string; requestState: string }, answer: object = accept): object => ({
  inputResponses: { [key]: answer },
  requestState,
});

const effectsOf = ({ nodes }: TestApp): string[] =>
  nodes.flatMap(({ app }) => app.get(Shop, { strict: false }).effects);

describe.each(ONE_ADAPTER)('tools that the user confirms, on %s', (adapter) => {
  const startShared = testApps(adapter, { providers: [Shop], requestStateKeys: [KEY], shared: true });
  /** The shop has forgotten the tests before. */
  const start = async (options?: Partial<TestAppOptions>): Promise<TestApp> => {
    const app = await startShared(options);
    for (const { app: node } of app.nodes) {
      const { effects, questions } = node.get(Shop, { strict: false });
      effects.length = questions.length = 0;
    }
    return app;
  };
  const rounds = (app: TestApp, name: string, args?: object, user = 'anna') =>
    new Rounds(app.modern(as(user)), name, args);

  it('the tool runs when the user has accepted, and the question shows the validated arguments', async () => {
    const app = await start();
    const call = rounds(app, 'remove', { id: 'A1' });
    const asked = await call.asked();
    expect(asked.message).toBe('Remove the order A1 (none)?');
    expect(effectsOf(app)).toEqual([]);
    expect(await call.text(answering(asked))).toBe('removed A1');
    expect(await rounds(app, 'archive', { id: 'A1' }).answered()).toBe('archived A1');
    expect(effectsOf(app)).toEqual(['remove A1', 'archive A1']);
  });

  it('D45: a text asks with the arguments that the tool gets, defaults included', async () => {
    const app = await start();
    const call = rounds(app, 'worded', { id: 'A"1' });
    expect((await call.asked()).message).toBe('Remove "A\\"1" ("none")?');
    expect(await call.answered()).toBe('worded');
    expect(effectsOf(app)).toEqual(['worded']);
  });

  it('in a session the call waits for the answer of the user', async () => {
    const app = await start();
    for (const [action, text] of [
      ['accept', 'removed A1'],
      ['decline', 'declined'],
      ['cancel', 'closed the question without an answer'],
    ] as const) {
      const asked: string[] = [];
      const client = await createMcpTestClient(app.app, {
        era: 'legacy',
        elicit: ({ message }) => {
          asked.push(message);
          return { action };
        },
      });
      const result = await client.callTool('remove', { id: 'A1' });
      expect(result.text).toContain(text);
      expect(result.isError).toBe(action !== 'accept');
      expect(asked).toEqual(['Remove the order A1 (none)?']);
      await client.close();
    }
    expect(effectsOf(app)).toEqual(['remove A1']);
    expect(app.log.texts('error')).toEqual([]);
  });

  it('a user who declines, or closes the question, is told to the model, and the tool does not run', async () => {
    const app = await start();
    expect(await rounds(app, 'remove', { id: 'A1' }).answered({ action: 'decline' })).toContain('declined');
    expect(await rounds(app, 'remove', { id: 'A1' }).answered({ action: 'cancel' })).toContain('without an answer');
    expect(effectsOf(app)).toEqual([]);
    expect(app.log.texts('error')).toEqual([]);
  });

  it.each([
    ['without capabilities', {}],
    ['with other capabilities', { sampling: {} }],
    ['that opens URLs alone', { elicitation: { url: {} } }],
  ])('a client %s is refused, with a text for the model', async (_, capabilities) => {
    const app = await start();
    const call = new Rounds(app.modern(), 'remove', { id: 'A1' }, capabilities);
    const { isError, content } = await call.send();
    expect(isError).toBe(true);
    expect(content?.[0]?.text).toContain('this client cannot ask its user');
    const session = await app.client().initialize('2025-11-25', capabilities);
    const { result } = await (await session.call('remove', { id: 'A1' })).json();
    expect(result).toMatchObject({ isError: true, content });
    expect(effectsOf(app)).toEqual([]);
  });

  it('a client without a session of 2025 is refused', async () => {
    const app = await start({ sessions: 'off' });
    const client = app.client();
    const { result } = await (await client.call('remove', { id: 'A1' })).json();
    expect(result).toMatchObject({ isError: true });
    expect(effectsOf(app)).toEqual([]);
  });

  it('a client that cannot be asked on the response of its call is refused', async () => {
    const app = await start({ responseMode: 'json' });
    const session = await app.client().initialize('2025-11-25', { elicitation: {} });
    const { result } = await (await session.call('remove', { id: 'A1' })).json();
    expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('could not be asked') }] });
    expect(effectsOf(app)).toEqual([]);
  });

  it('a confirmation is good for one call: an answer that is sent again is refused', async () => {
    const app = await start();
    const call = rounds(app, 'remove', { id: 'A1' });
    const answer = answering(await call.asked());
    expect(await call.text(answer)).toBe('removed A1');
    for (const _ of [1, 2]) expect(await call.text(answer)).toContain('used already');
    expect(effectsOf(app)).toEqual(['remove A1']);
  });

  it('of many copies of an answer at the same moment, one runs the tool', async () => {
    const app = await start();
    const call = rounds(app, 'remove', { id: 'A1' });
    const answer = answering(await call.asked());
    const texts = await Promise.all(Array.from({ length: 50 }, () => call.text(answer)));
    expect(texts.filter((text) => text === 'removed A1')).toHaveLength(1);
    expect(effectsOf(app)).toEqual(['remove A1']);
  });

  it('a declined question cannot be accepted later', async () => {
    const app = await start();
    const call = rounds(app, 'remove', { id: 'A1' });
    const asked = await call.asked();
    await call.text(answering(asked, { action: 'decline' }));
    expect(await call.text(answering(asked))).toContain('used already');
    expect(effectsOf(app)).toEqual([]);
  });

  it('an answer without its question answers nothing', async () => {
    const app = await start();
    const call = rounds(app, 'remove', { id: 'A1' });
    const first = await call.asked();
    const guesses = { confirm: accept, [first.key]: accept, 'nestjs-mcp-streamable:confirm': accept };
    const second = await call.asked({ inputResponses: guesses });
    expect(second.key).not.toBe(first.key);
    // The answer to one of two parallel calls is none to the other.
    expect((await call.asked({ ...answering(second), inputResponses: { [first.key]: accept } })).key).toBe(second.key);
    expect(effectsOf(app)).toEqual([]);
  });

  it.each([
    ['other arguments', (app: TestApp) => new Rounds(app.modern(as('anna')), 'remove', { id: 'A2' })],
    ['another caller', (app: TestApp) => new Rounds(app.modern(as('ben')), 'remove', { id: 'A1' })],
    ['an anonymous caller', (app: TestApp) => new Rounds(app.modern(), 'remove', { id: 'A1' })],
    ['another tool', (app: TestApp) => new Rounds(app.modern(as('anna')), 'archive', { id: 'A1' })],
  ])('a confirmation is not one for %s', async (_what, other) => {
    const app = await start();
    const answer = answering(await rounds(app, 'remove', { id: 'A1' }).asked());
    expect(await other(app).text(answer)).toContain('invalid_request_state');
    expect(await other(app).text({ ...answer, requestState: undefined })).toBe('');
    expect(effectsOf(app)).toEqual([]);
  });

  it('an answer of the wrong kind asks again', async () => {
    const app = await start();
    const call = rounds(app, 'remove', { id: 'A1' });
    const asked = await call.asked();
    for (const answer of [{ action: 'yes' }, { action: true }, {}, { result: accept }]) {
      const again = await call.asked(answering(await call.asked(), answer));
      expect(again.message).toBe(asked.message);
    }
    expect(effectsOf(app)).toEqual([]);
  });

  it('an answer that comes too late is refused', async () => {
    const clock = new ManualClock();
    const app = await start({ clock });
    const call = rounds(app, 'brief');
    const answer = answering(await call.asked());
    await clock.advance(60_000);
    expect(await call.text(answer)).toContain('did not confirm this call in time');
    expect(effectsOf(app)).toEqual([]);
  });

  it('in a session the question ends with its time, and the time of the tool begins after the answer', async () => {
    const clock = new ManualClock();
    const app = await start({ clock });
    let answer: ((result: { action: 'accept' }) => void) | undefined;
    const client = await createMcpTestClient(app.app, {
      era: 'legacy',
      elicit: () => new Promise((resolve) => (answer = resolve)),
    });
    const late = client.callTool('brief');
    await expect.poll(() => answer).toBeDefined();
    await clock.advance(60_000);
    expect((await late).text).toContain('did not confirm this call in time');
    answer = undefined;
    const confirmed = client.callTool('brief');
    await expect.poll(() => answer).toBeDefined();
    await clock.advance(59_000);
    answer!({ action: 'accept' });
    expect((await confirmed).text).toBe('brief');
    expect(effectsOf(app)).toEqual(['brief']);
    await client.close();
  });

  it('the question comes after the guards and the check of the arguments', async () => {
    const app = await start();
    expect(await rounds(app, 'forbidden', { id: 'A1' }).text()).toBe('Forbidden resource');
    expect(await rounds(app, 'remove', { id: '' }).text()).toContain('not valid');
    expect(await rounds(app, 'remove', { id: 5 }).text()).toContain('not valid');
    expect(effectsOf(app)).toEqual([]);
  });

  it('a handler that asks itself asks after the confirmation, which is not asked again', async () => {
    const clock = new ManualClock();
    const app = await start({ clock });
    const call = rounds(app, 'asks', { id: 'A1' });
    const confirmed = answering(await call.asked());
    const asked = await call.asked(confirmed);
    expect(asked).toMatchObject({ key: 'sure', message: 'Sure?' });
    // The time for the confirmation is no limit for the questions after it.
    await clock.advance(120_000);
    expect(await call.text(answering(asked))).toBe('asked: accept');
    expect(await call.text(answering(asked))).toContain('used already');
    expect(await call.text(confirmed)).toContain('used already');
    expect(effectsOf(app)).toEqual(['asks']);
  });

  it('a repeat of an idempotent call is not asked again', async () => {
    const app = await start();
    const call = rounds(app, 'once', { id: 'A1' });
    const answer = answering(await call.asked());
    expect(await call.text(answer)).toBe('run 1');
    expect(await call.text(answer)).toBe('run 1');
    expect(await call.text()).toBe('run 1');
    expect(effectsOf(app)).toEqual(['once']);
  });

  it('two questions under one idempotency key, both accepted, run the tool once', async () => {
    const app = await start();
    const call = rounds(app, 'once', { id: 'A2' });
    const answers = [answering(await call.asked()), answering(await call.asked())];
    expect(await Promise.all(answers.map((answer) => call.text(answer)))).toEqual(['run 1', 'run 1']);
    expect(effectsOf(app)).toEqual(['once']);
  });

  it('a decorator that replaces the function does not remove the question', async () => {
    const app = await start();
    await rounds(app, 'wrapped').asked();
    expect(effectsOf(app)).toEqual([]);
    expect(await rounds(app, 'wrapped').answered()).toBe('wrapped');
  });

  it('a route asks, with the arguments that its method gets', async () => {
    const app = await start({ module: { controllers: [Parcels] } });
    // A guard puts another number in the place of the last one.
    for (const [number, taken] of [
      [7, 7],
      [8, 9],
    ]) {
      const call = rounds(app, 'parcels_remove', { number });
      expect((await call.asked()).message).toBe(`Throw away parcel ${taken}?`);
      expect(await call.answered()).toBe(`gone: ${taken}`);
    }
  });

  it('a registered tool asks', async () => {
    const app = await start();
    const handler = (): string => 'done';
    app.app
      .get(McpRegistry)
      .registerTool({ name: 'plugin', inputSchema: Order, confirm: ({ id }) => `${id}?`, handler });
    const call = rounds(app, 'plugin', { id: 'A1' });
    expect((await call.asked()).message).toBe('A1?');
    expect(await call.answered()).toBe('done');
  });

  it('a call from within the app is refused, unless its caller answers', async () => {
    const app = await start();
    const tools = app.app.get(McpToolCaller);
    expect(await tools.callTool('remove', { id: 'A1' })).toMatchObject({ isError: true });
    const refused = await tools.callTool('remove', { id: 'A1' }, { elicit: () => ({ action: 'decline' }) });
    expect(refused).toMatchObject({ isError: true });
    expect(effectsOf(app)).toEqual([]);
    const done = await tools.callTool('remove', { id: 'A1' }, { elicit: () => ({ action: 'accept' }) });
    expect(done.content).toMatchObject([{ text: 'removed A1' }]);
  });

  it('a question that is too long to be read is not asked', async () => {
    const app = await start();
    expect(await rounds(app, 'long', { id: 'A1', note: 'x'.repeat(4_001) }).text()).toContain('4000 characters');
    expect((await rounds(app, 'long', { id: 'A1', note: 'x'.repeat(4_000) }).asked()).message).toHaveLength(4_000);
    expect(effectsOf(app)).toEqual([]);
  });

  it('a message that is none is a failure of the tool', async () => {
    const app = await start();
    expect(await rounds(app, 'broken').text()).toContain('"confirm"');
    expect(effectsOf(app)).toEqual([]);
    expect(app.log.texts('error').join()).toContain('must return the question');
    app.log.lines.length = 0;
  });

  it('a caller with too many answers is told to wait, not that this answer was used', async () => {
    const store = new InMemoryStateStore();
    const stateStore: TestAppOptions['stateStore'] = {
      get: (key) => store.get(key),
      set: (key, value, ttlMs) => store.set(key, value, ttlMs),
      delete: (key) => store.delete(key),
      add: (key, value, ttlMs, quota) => store.add(key, value, ttlMs, quota && { ...quota, max: 1 }),
    };
    const app = await start({ stateStore });
    const call = rounds(app, 'remove', { id: 'A1' });
    expect(await call.answered()).toBe('removed A1');
    expect(await call.answered()).toContain('Call the tool again in some minutes');
    expect(await rounds(app, 'remove', { id: 'A1' }, 'ben').answered()).toBe('removed A1');
    expect(effectsOf(app)).toHaveLength(2);
  });

  it('nothing runs while the store is away that remembers used answers', async () => {
    const backend = new NodeBackend();
    const app = await start({ stateStore: backend.over(new InMemoryStateStore()) });
    const call = rounds(app, 'remove', { id: 'A1' });
    const answer = answering(await call.asked());
    backend.away();
    expect(await call.text(answer)).toContain('storage of this server is unavailable');
    backend.back();
    expect(effectsOf(app)).toEqual([]);
    expect(await call.text(answer)).toBe('removed A1');
  });

  it('an answer that was used on one node is used on all that share a store', async () => {
    const stateStore = new InMemoryStateStore();
    const apps = [await start({ stateStore }), await start({ stateStore })] as const;
    const [one, other] = apps.map((app) => rounds(app, 'remove', { id: 'A1' })) as [Rounds, Rounds];
    const answer = answering(await one.asked());
    const texts = await Promise.all([one.text(answer), other.text(answer), one.text(answer), other.text(answer)]);
    expect(texts.filter((text) => text === 'removed A1')).toHaveLength(1);
    expect(apps.flatMap(effectsOf)).toEqual(['remove A1']);
  });

  it('copies of an answer on two nodes with a slow store run the tool once', async () => {
    const backend = new NodeBackend();
    const stateStore = backend.over(new InMemoryStateStore());
    const apps = [await start({ stateStore }), await start({ stateStore })] as const;
    const [one, other] = apps.map((app) => rounds(app, 'remove', { id: 'A1' })) as [Rounds, Rounds];
    const answer = answering(await one.asked());
    backend.pause();
    const texts = [one.text(answer), other.text(answer), one.text(answer)];
    await expect.poll(() => backend.waiting).toBe(3);
    backend.back();
    expect((await Promise.all(texts)).filter((text) => text === 'removed A1')).toHaveLength(1);
    expect(apps.flatMap(effectsOf)).toEqual(['remove A1']);
  });

  it('nodes whose clocks differ confirm calls for each other, until the time is over by the clock of their store', async () => {
    const clock = new ManualClock();
    const stateStore = new InMemoryStateStore(clock);
    const nodes: TestApp[] = [];
    for (const minutes of [-10, 10])
      nodes.push(await start({ stateStore, clock: new ManualClock(clock.now() + minutes * 60_000) }));
    for (const [asks, answers] of [nodes, nodes.toReversed()] as [TestApp, TestApp][]) {
      const asked = await rounds(asks, 'brief').asked();
      await clock.advance(59_999);
      const answer = answering(asked);
      expect(await rounds(answers, 'brief').text(answer)).toBe('brief');
      expect(await rounds(asks, 'brief').text(answer)).toContain('used already');
      const late = answering(await rounds(asks, 'brief').asked());
      await clock.advance(60_000);
      expect(await rounds(answers, 'brief').text(late)).toContain('did not confirm this call in time');
    }
    expect(nodes.flatMap(effectsOf)).toEqual(['brief', 'brief']);
  });

  it('a node that shares no store allows the clock of the node that asked to differ by the tolerance', async () => {
    const clocks = [new ManualClock(), new ManualClock()] as const;
    const [asks, answers] = [await start({ clock: clocks[0] }), await start({ clock: clocks[1] })] as const;
    const answer = async (): Promise<object> => answering(await rounds(asks, 'brief').asked());
    const [first, second] = [await answer(), await answer()];
    for (const clock of clocks) await clock.advance(119_999);
    expect(await rounds(answers, 'brief').text(first)).toBe('brief');
    for (const clock of clocks) await clock.advance(1);
    expect(await rounds(answers, 'brief').text(second)).toContain('did not confirm this call in time');
    expect(effectsOf(answers)).toEqual(['brief']);
  });

  it('an answer is used once over a store with get, set and delete alone', async () => {
    const store = new InMemoryStateStore();
    const stateStore: TestAppOptions['stateStore'] = {
      get: (key) => store.get(key),
      set: (key, value, ttlMs) => store.set(key, value, ttlMs),
      delete: (key) => store.delete(key),
    };
    const app = await start({ stateStore });
    const call = rounds(app, 'remove', { id: 'A1' });
    const answer = answering(await call.asked());
    await Promise.all(Array.from({ length: 20 }, () => call.text(answer)));
    expect(effectsOf(app)).toEqual(['remove A1']);
  });

  class ByPage {
    runs = 0;
    @Tool({ name: 'paged', inputSchema: Order })
    @Confirm(({ id }: Order) => `Page for ${id}?`, {
      whenUnable: 'url',
      url: (id) => `https://shop.test/${id}`,
      ttlMs: 60_000,
    })
    paged(): string {
      return `paged ${++this.runs}`;
    }
  }
  const PRINCIPAL = ({ user }: { user?: { sub: string } }): string | undefined => user?.sub;

  describe('on a page of the app', () => {
    // Pages and declined calls are remembered.
    const startOwn = testApps(adapter, { providers: [Shop], requestStateKeys: [KEY] });
    const paged = async (capabilities: object = {}, options: Partial<TestAppOptions> = {}) => {
      const app = await startOwn({ providers: [ByPage], principal: PRINCIPAL, ...options });
      const call = (id = 'A1', user = 'anna') => new Rounds(app.modern(as(user)), 'paged', { id }, capabilities);
      return { app, call, pages: app.app.get(McpConfirmations) };
    };
    const idIn = (text: string): string => /https:\/\/shop\.test\/(\w+)/.exec(text)?.[1] ?? text;

    it('a client that cannot ask gets a link, and the call runs when it is made again after the user has accepted', async () => {
      const { app, call, pages } = await paged();
      const id = idIn(await call().text());
      expect(id).toMatch(/^\w{22}$/);
      expect(idIn(await call().text())).toBe(id);
      expect(await pages.find(id, 'anna')).toEqual({ tool: 'paged', message: 'Page for A1?', answer: 'open' });
      expect(await pages.answer(id, 'anna', 'accept')).toBe(true);
      expect(await pages.answer(id, 'anna', 'decline')).toBe(false);
      const texts = await Promise.all(Array.from({ length: 10 }, () => call().text()));
      expect(texts.filter((text) => text.startsWith('paged'))).toEqual(['paged 1']);
      expect(idIn(await call().text())).not.toBe(id);
      expect(app.app.get(ByPage).runs).toBe(1);
    });

    it('a page is that of its user and of its arguments', async () => {
      const { app, call, pages } = await paged();
      const id = idIn(await call().text());
      expect(await pages.find(id, 'ben')).toBeUndefined();
      expect(await pages.answer(id, 'ben', 'accept')).toBe(false);
      for (const forged of ['', '__proto__', `${id}x`, `../${id}`, 'a:b'])
        expect(await pages.answer(forged, 'anna', 'accept')).toBe(false);
      await pages.answer(id, 'anna', 'accept');
      for (const other of [call('A2'), call('A1', 'ben')]) expect(await other.text()).toContain('https://shop.test/');
      expect(app.app.get(ByPage).runs).toBe(0);
      expect(await call().text()).toBe('paged 1');
    });

    it('a user who declines on the page is told to the model; the next call asks anew', async () => {
      const { call, pages } = await paged();
      const id = idIn(await call().text());
      await pages.answer(id, 'anna', 'decline');
      expect(await call().text()).toContain('declined');
      expect(idIn(await call().text())).not.toBe(id);
    });

    it('a page ends with its time', async () => {
      const clock = new ManualClock();
      const { call, pages } = await paged({}, { clock });
      const id = idIn(await call().text());
      await pages.answer(id, 'anna', 'accept');
      await clock.advance(60_000);
      expect(await pages.find(id, 'anna')).toBeUndefined();
      expect(idIn(await call().text())).not.toBe(id);
    });

    it('an anonymous caller has no page, and a client that can ask is asked', async () => {
      const { app } = await paged();
      expect(await new Rounds(app.modern(), 'paged', { id: 'A1' }, {}).text()).toContain('this caller is anonymous');
      expect((await new Rounds(app.modern(as('anna')), 'paged', { id: 'A1' }).asked()).message).toBe('Page for A1?');
    });

    it('a client that opens URLs is sent there, and that it has opened the page is no consent', async () => {
      const clock = new ManualClock();
      const { app, call, pages } = await paged({ elicitation: { url: {} } }, { clock });
      const asked = await call().asked();
      const id = asked.key.replace('confirm-', '');
      const waiting = call().text(answering(asked));
      await expect.poll(() => clock.pending).toBeGreaterThan(1);
      await clock.advance(31_000);
      expect(await waiting).toContain(`https://shop.test/${id}`);
      expect(await call().text(answering(asked))).toContain('used already');
      const again = await call().asked();
      expect(again.key).toBe(asked.key);
      const confirmed = call().text(answering(again));
      await pages.answer(id, 'anna', 'accept');
      await clock.advance(1_000);
      expect(await confirmed).toBe('paged 1');
      expect(app.app.get(ByPage).runs).toBe(1);
      const declined = await call().asked();
      expect(await call().text(answering(declined, { action: 'decline' }))).toContain('declined');
    });

    it('a form that is sent twice, while calls wait on two nodes with a slow store, runs the tool once', async () => {
      const clock = new ManualClock();
      const store = new InMemoryStateStore(clock);
      const slow = gate();
      let decisions = 0;
      /** The store gets the second decision late. */
      const late =
        <Args extends unknown[], T>(change: (...args: Args) => Promise<T>) =>
        async (...args: Args): Promise<T> => {
          if (JSON.stringify(args).includes('"accept"') && ++decisions === 2) await slow.promise;
          return change(...args);
        };
      const stateStore: TestAppOptions['stateStore'] = {
        get: (key) => store.get(key),
        set: late((...args: Parameters<typeof store.set>) => store.set(...args)),
        delete: (key) => store.delete(key),
        add: late((...args: Parameters<typeof store.add>) => store.add(...args)),
      };
      const opens = { elicitation: { url: {} } };
      const nodes = [await paged(opens, { clock, stateStore }), await paged(opens, { clock, stateStore })] as const;
      const asked = [await nodes[0].call().asked(), await nodes[1].call().asked()];
      const id = asked[1]!.key.replace('confirm-', '');
      const calls = nodes.map(({ call }, at) => call().text(answering(asked[at]!)));
      await expect.poll(() => clock.pending).toBeGreaterThanOrEqual(2);
      const answers = nodes.map(({ pages }) => pages.answer(id, 'anna', 'accept'));
      expect(await answers[0]).toBe(true);
      await clock.advance(1_000);
      expect(await Promise.race(calls)).toBe('paged 1');
      slow.open();
      expect(await answers[1]).toBe(false);
      await clock.advance(1_000);
      const texts = await Promise.all(calls);
      expect(texts.filter((text) => text.startsWith('paged'))).toHaveLength(1);
      expect(texts.filter((text) => text.includes('Call the tool again to ask again'))).toHaveLength(1);
      expect(nodes.reduce((runs, { app }) => runs + app.app.get(ByPage).runs, 0)).toBe(1);
      // The second decision left nothing with which a further call could run.
      expect((await nodes[1].call().asked()).key).not.toBe(`confirm-${id}`);
    });

    it('two calls that come at the same moment lead to one page', async () => {
      const stateStore = new InMemoryStateStore();
      const nodes = [await paged({}, { stateStore }), await paged({}, { stateStore })];
      const texts = await Promise.all(nodes.flatMap(({ call }) => [call().text(), call().text()]));
      expect(new Set(texts.map(idIn)).size).toBe(1);
    });

    it('a caller has a bounded number of pages', async () => {
      const { call } = await paged();
      for (let n = 0; n < 100; n++) await call(`A${n}`).text();
      expect(await call('B').text()).toContain('Too many calls wait');
      expect(await call('B', 'ben').text()).toContain('https://shop.test/');
    });
  });

  class WithoutUrl {
    @Tool({ name: 'p' })
    @Confirm('Yes?', { whenUnable: 'url' })
    p(): void {}
  }
  class UrlAlone {
    @Tool({ name: 'p' })
    @Confirm('Yes?', { url: () => 'https://shop.test' })
    p(): void {}
  }
  class Placeless {
    @Tool({ name: 'p', inputSchema: Order })
    @Confirm('Remove {order}?')
    p(): void {}
  }
  class NoAddress {
    @Tool({ name: 'p' })
    @Confirm('Yes?', { whenUnable: 'url', url: 'javascript:{id}' })
    p(): void {}
  }
  class OnPrompt {
    @Prompt({ name: 'p' })
    @Confirm('Yes?')
    p(): string {
      return '';
    }
  }
  class Alone {
    @Confirm('Yes?')
    p(): void {}
  }
  class Twice {
    @Tool({ name: 'p', confirm: 'Yes?' })
    @Confirm('Yes?')
    p(): void {}
  }
  class Unknown {
    @Tool({ name: 'p' })
    @Confirm('Yes?', { ttl: 1 } as never)
    p(): void {}
  }
  class Negative {
    @Tool({ name: 'p' })
    @Confirm('Yes?', { ttlMs: -1 })
    p(): void {}
  }
  class Silent {
    @Tool({ name: 'p', confirm: {} as never })
    p(): void {}
  }
  class Empty {
    @Tool({ name: 'p', confirm: ' ' })
    p(): void {}
  }

  it.each([
    ['without the address of its page', WithoutUrl, 'without "url"'],
    ['with an address that is not used', UrlAlone, 'without "whenUnable'],
    ['with a place that no argument has', Placeless, 'has the place {order}'],
    ['with an address of no page', NoAddress, 'an absolute URL with {id} in it'],
    ['on a prompt', OnPrompt, 'is no tool'],
    ['without @Tool()', Alone, 'is no tool'],
    ['twice', Twice, 'Remove one'],
    ['with an unknown option', Unknown, 'ttl'],
    ['with a time that is none', Negative, 'at least 1'],
    ['without a message', Silent, 'no "message"'],
    ['with an empty message', Empty, 'a text that is not empty'],
  ])('the app does not start with a confirmation %s', async (_how, type, text) => {
    const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'x', version: '1' } })];
    const failure = await startFailure(adapter, () => ({ imports, providers: [type] }));
    expect(failure).toBeInstanceOf(McpHandlerDefinitionError);
    expect(failure.message).toContain(text);
  });

  it('a method that overrides a confirmed tool has its own question, or none', async () => {
    class Base {
      @Tool({ name: 'base' })
      @Confirm('Base?')
      p(): string {
        return 'base';
      }
    }
    class Inherits extends Base {}
    class Overrides extends Base {
      @Tool({ name: 'own' })
      override p(): string {
        return 'own';
      }
    }
    const app = await start({ providers: [Inherits, Overrides] });
    await rounds(app, 'base').asked();
    expect(await rounds(app, 'own').text()).toBe('own');
  });

  it('a confirmed tool that a subclass leaves out is no tool, and prevents no start', async () => {
    @Controller('base')
    class Base {
      @Get('left')
      @Tool({ name: 'left' })
      @Confirm('Base?')
      left(): string {
        return 'base';
      }
      @Get('kept')
      kept(): string {
        return 'kept';
      }
    }
    @Controller('sub')
    @Tools({ except: ['left'] })
    class Sub extends Base {}
    const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'x', version: '1' } })];
    const app = await TestApp.of(adapter, { imports, controllers: [Sub] });
    const tools = app.app.get(McpRegistry, { strict: false }).list('tool');
    expect(tools.map(({ wire }) => wire.name)).not.toContain('left');
    expect(tools).toHaveLength(1);
    await app.close();
  });

  it('@Confirm() refuses a message that is neither a text nor a function', () => {
    for (const message of [undefined, 5, '', {}]) {
      const decorate = () => Confirm(message as never)({}, 'remove', {});
      expect(decorate).toThrow('takes the question for the user, or a function that returns it');
    }
  });
});
