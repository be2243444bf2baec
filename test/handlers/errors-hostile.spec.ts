import {
  type CanActivate,
  ForbiddenException,
  HttpException,
  Injectable,
  NotFoundException,
  UseGuards,
} from '@nestjs/common';
import { ProtocolError } from '@modelcontextprotocol/server';
import { Complete, McpError, Prompt } from 'nestjs-mcp-streamable';
import { concat, of, throwError } from 'rxjs';
import { toolLog } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { KINDS, LISTS, messageOf } from '../support/kinds.js';
import { fourOf } from './four.js';

const SECRET = 'hunter2';
const fails = (): never => {
  throw new Error(SECRET);
};
/** Every look at it throws what `trap` throws. */
const proxied = (trap: () => never): object =>
  new Proxy(new Error(SECRET), { get: trap, has: trap, getPrototypeOf: trap, ownKeys: trap });
const throwsProxies: () => never = () => {
  // oxlint-disable-next-line typescript/only-throw-error -- that is the point
  throw proxied(fails);
};
const withGetters = (error: object, ...names: string[]): object =>
  Object.defineProperties(error, Object.fromEntries(names.map((name) => [name, { get: fails, enumerable: true }])));

/** What cannot be looked at without another error. */
const UNREADABLE: Record<string, () => unknown> = {
  'a Proxy whose traps throw': () => proxied(fails),
  'a Proxy whose traps throw such Proxies': () => proxied(throwsProxies),
  'an Error whose name throws': () => withGetters(new Error(SECRET), 'name', 'code', 'message', 'stack'),
  'an HttpException whose response throws': () =>
    Object.assign(new NotFoundException(SECRET), { getResponse: fails, getStatus: () => 404 }),
  'an HttpException whose status throws': () => Object.assign(new NotFoundException(SECRET), { getStatus: fails }),
  'an HttpException whose message throws': () => withGetters(new HttpException({}, 409), 'message', 'response'),
  'a ProtocolError whose message throws': () => withGetters(new ProtocolError(-32042, SECRET), 'message'),
  'an McpError whose data throws': () => withGetters(new McpError('BAD_REQUEST', SECRET), 'data'),
  'a ProtocolError whose data throws when it is written': () =>
    new ProtocolError(-32042, 'Go there', withGetters({ there: SECRET }, 'here')),
};

let thrown: () => unknown;
const WAYS: Record<string, () => unknown> = {
  sync: () => {
    throw thrown();
  },
  async: () => Promise.reject(thrown()),
  observable: () => throwError(thrown),
  reporting: () => concat(of(toolLog('debug', 'It begins')), throwError(thrown)),
  async *iterable() {
    yield toolLog('debug', 'It begins');
    throw thrown();
  },
};
const hosts = Object.entries(WAYS).map(([way, run]) => fourOf(way, { run }));

@Injectable()
class Completed {
  @Prompt({ name: 'completed', arguments: [{ name: 'word' }] })
  completed(): string {
    return 'completed';
  }
  @Complete({ prompt: 'completed', argument: 'word' })
  words(): never {
    throw thrown();
  }
}

describe.each(ONE_ADAPTER)('thrown values that cannot be read, on %s', (adapter) => {
  const start = testApps(adapter, {
    providers: [...hosts, Completed],
    shared: true,
    sseAfterMs: 60_000,
    errorDetails: false,
  });

  const answerOf = async (app: TestApp, message: (client: Awaited<ReturnType<typeof clientOf>>) => object) => {
    const client = await clientOf(app);
    const response = await client.post(message(client));
    expect(response.status).toBe(200);
    const streamed = response.header('content-type') === 'text/event-stream';
    if (!streamed) return response.json();
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    return stream.messages.at(-1);
  };
  const clientOf = (app: TestApp) => app.client().initialize();
  const internal = expect.stringMatching(/^Internal error in the /) as string;

  it.each(Object.keys(UNREADABLE))('%s is a failure like any other, of every kind and in every way', async (what) => {
    thrown = UNREADABLE[what]!;
    const app = await start();
    for (const way of Object.keys(WAYS)) {
      for (const kind of KINDS) {
        const answer = await answerOf(app, (client) => messageOf(client, kind, way));
        expect(JSON.stringify(answer)).not.toContain(SECRET);
        if (kind === 'tool') {
          expect(answer).toMatchObject({ result: { content: [{ text: internal }], isError: true } });
        } else {
          expect(answer).toMatchObject({ error: { code: -32603, message: internal } });
        }
      }
    }
    const ref = { type: 'ref/prompt', name: 'completed' };
    const params = { ref, argument: { name: 'word', value: 'a' } };
    const method = 'completion/complete';
    const answer = await answerOf(app, (client) => ({ jsonrpc: '2.0', id: client.nextId(), method, params }));
    expect(answer).toMatchObject({ error: { code: -32603, message: internal } });
    expect(app.log.texts('error')).toHaveLength(Object.keys(WAYS).length * KINDS.length + 1);
  });

  it.each(Object.keys(UNREADABLE))('%s, thrown by a guard, hides the entry and fails the call', async (what) => {
    thrown = UNREADABLE[what]!;
    const guard = { canActivate: WAYS['sync'] as () => never };
    const app = await start({ providers: [fourOf('guarded', { onMethods: [UseGuards(guard)] })] });
    for (const kind of KINDS) {
      const { method, field } = LISTS[kind];
      const list = await answerOf(app, (client) => ({ jsonrpc: '2.0', id: client.nextId(), method }));
      expect(JSON.stringify(list)).not.toMatch(/guarded|hunter2/);
      expect(list.result[field].length).toBeGreaterThan(0);
      const answer = await answerOf(app, (client) => messageOf(client, kind, 'guarded'));
      expect(JSON.stringify(answer)).not.toContain(SECRET);
      expect(JSON.stringify(answer)).toContain('Internal error in the ');
    }
  });

  it.each([
    [null, 'null'],
    [undefined, 'undefined'],
    ['no plan', '"no plan"'],
  ])('%s, thrown by a guard, is logged once with its name', async (value, shown) => {
    class PlanGuard implements CanActivate {
      canActivate = WAYS['sync'] as () => never;
    }
    thrown = () => value;
    const app = await start({ providers: [fourOf('planned', { onMethods: [UseGuards(PlanGuard)] })] });
    for (const kind of KINDS) {
      const answer = await answerOf(app, (client) => messageOf(client, kind, 'planned'));
      expect(JSON.stringify(answer)).toContain('Internal error in the ');
    }
    const errors = app.log.texts('error');
    expect(errors).toHaveLength(KINDS.length);
    for (const text of errors) expect(text).toContain(`Guard PlanGuard threw ${shown}: throw an Error`);
  });

  it('a denial whose response throws denies', async () => {
    const denial = Object.assign(new ForbiddenException(SECRET), { getResponse: fails });
    thrown = () => denial;
    const guard = { canActivate: WAYS['sync'] as () => never };
    const app = await start({ providers: [fourOf('guarded', { onMethods: [UseGuards(guard)] })] });
    for (const kind of KINDS) {
      const answer = await answerOf(app, (client) => messageOf(client, kind, 'guarded'));
      expect(JSON.stringify(answer)).not.toContain(SECRET);
    }
  });

  /** Results that can be read, until they are written. */
  const unwritable = {
    tool: () => ({ content: [], structuredContent: { deep: withGetters({}, 'secret') } }),
    resource: () => ({ contents: [{ text: 'x', _meta: { deep: withGetters({}, 'secret') } }] }),
    template: () => ({ contents: [{ text: 'x', _meta: { deep: withGetters({}, 'secret') } }] }),
    prompt: () => ({ messages: [], _meta: { deep: withGetters({}, 'secret') } }),
  };
  it.each(KINDS)('a result of a %s whose getters throw is a failure like any other', async (kind) => {
    const app = await start({ providers: [fourOf('getters', { run: unwritable[kind] })] });
    const answer = await answerOf(app, (client) => messageOf(client, kind, 'getters'));
    expect(JSON.stringify(answer)).not.toContain(SECRET);
    expect(JSON.stringify(answer)).toMatch(/See the server log/);
  });
});
