import { Agent, request as httpRequest } from 'node:http';
import { type McpHandlerFunction, type McpContext, currentMcpCall } from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, gate } from '../support/app.js';
import type { RawResponse } from '../support/http.js';
import { gists } from '../support/messages.js';
import { eventually, testApps } from '../support/test-apps.js';
import { ModernClient, type ModernRequest } from '../support/modern-client.js';
import { as } from '../support/users.js';
import { seededRandom } from '../support/share.js';
import { forsakenCall, connectionsGone } from '../support/raw-socket.js';

/*
 * One `MethodDispatcher` serves all requests of an endpoint (src/core/methods/method-dispatcher.ts). This is the evidence
 * that it may: whatever clients choose as their ids and tokens, and however their requests interleave, nothing crosses over.
 */

type Tool = McpHandlerFunction<Record<string, unknown>>;

const CLIENTS = 200;
const NOTHING = { inFlight: 0, openResponses: 0, timers: 0, streams: 0, sessions: 0 };
const LEVELS = ['debug', 'info', 'warning', undefined] as const;
/** What each call logs, and what of it is told to whom. */
const LOGGED = ['debug', 'info', 'warning'] as const;

interface Identity {
  n: unknown;
  principal: string | undefined;
  header: string | undefined;
  requestId: unknown;
  client: unknown;
}

/** Who is being served, as a handler can find out at any moment, in each way there is. */
function identity(n: unknown, { principal, request, requestId, clientCapabilities }: McpContext): Identity {
  const call = currentMcpCall()!;
  const { headers } = request as { headers: Record<string, string> };
  expect([call.principal, call.requestId, call.request]).toEqual([principal, requestId, request]);
  return { n, principal, header: headers['x-call'], requestId, client: clientCapabilities['experimental'] };
}

/** Lets those who wait go on one after the other, in an order by chance that is the same for the same seed. */
class Turnstile {
  readonly #waiting: (() => void)[] = [];
  constructor(private readonly random: () => number) {}

  get size(): number {
    return this.#waiting.length;
  }
  pass(): Promise<void> {
    const { promise, open } = gate();
    this.#waiting.push(open);
    return promise;
  }
  turn(): void {
    const position = Math.floor(this.random() * this.#waiting.length);
    this.#waiting.splice(position, 1)[0]?.();
  }
  /** Until nobody waits, and nobody comes any more. */
  async run(over: Promise<unknown>): Promise<void> {
    const progress = { done: false };
    void over.finally(() => (progress.done = true)).catch(() => {});
    while (!progress.done || this.size > 0) {
      for (let n = 0; n < 10; n++) this.turn();
      await new Promise(setImmediate);
    }
  }
}

/** Looks around, talks, waits for its turn, and looks again. */
function interleaved(turnstile: Turnstile): Tool {
  return async ({ n, rounds, quiet }, ctx) => {
    const seen = [identity(n, ctx)];
    for (let round = 1; round <= Number(rounds); round++) {
      await turnstile.pass();
      seen.push(identity(n, ctx));
      if (quiet) continue;
      await ctx.progress(round, undefined, String(n));
      for (const level of LOGGED) await ctx.log(level, `${level} of ${String(n)}`);
    }
    return { seen };
  };
}

/** What a level lets through of one round. */
function toldOf(level: (typeof LEVELS)[number], n: number): string[] {
  return level === undefined ? [] : LOGGED.slice(LOGGED.indexOf(level)).map((logged) => `${logged} of ${n}`);
}

async function messagesOf(response: RawResponse) {
  if (response.header('content-type')?.startsWith('application/json')) return [await response.json()];
  const stream = response.sse();
  expect(await stream.end()).toBe('end');
  return stream.messages;
}

describe.each(ONE_ADAPTER)('modern requests at the same time, on %s', (adapter) => {
  const start = testApps(adapter, { sseAfterMs: 60_000 });

  it.each([1, 2])(
    'concurrency: 200 clients that all use id 1 and one progress token get what is theirs (seed %i)',
    async (seed) => {
      const random = seededRandom(seed);
      const turnstile = new Turnstile(random);
      const app = await start({ tools: { interleaved: interleaved(turnstile) } });
      const calls = Array.from({ length: CLIENTS }, (_, n) => {
        const user = `user${n % 17}`;
        const client = new ModernClient(app.url, { ...as(user), 'x-call': `call ${n}` });
        const level = LEVELS[n % 4];
        const quiet = random() < 0.3;
        const rounds = 1 + Math.floor(random() * 3);
        const options: ModernRequest = {
          id: 1,
          progressToken: 'token',
          capabilities: { experimental: { of: { n } } },
          ...(level && { logLevel: level }),
        };
        return { n, user, level, quiet, rounds, answer: client.call('interleaved', { n, rounds, quiet }, options) };
      });
      await expect.poll(() => turnstile.size).toBe(CLIENTS);
      await app.settled({ inFlight: CLIENTS });
      const over = Promise.all(calls.map(async ({ answer }) => messagesOf(await answer)));
      await turnstile.run(over);

      for (const [n, messages] of (await over).entries()) {
        const { user, level, quiet, rounds } = calls[n]!;
        const last = messages.pop();
        expect(last.id).toBe(1);
        const expected = { n, principal: user, header: `call ${n}`, requestId: 1, client: { of: { n } } };
        expect(last.result.structuredContent.seen).toEqual(Array.from({ length: rounds + 1 }, () => expected));
        const told = Array.from({ length: quiet ? 0 : rounds }, (_, round) => [
          { progressToken: 'token', progress: round + 1, message: String(n) },
          ...toldOf(level, n),
        ]).flat();
        expect(messages.map(({ params }) => params.data ?? params)).toEqual(told);
      }
      await app.settled(NOTHING);
    },
    60_000,
  );

  it("concurrency: an application's own servers are as far apart", async () => {
    const turnstile = new Turnstile(seededRandom(3));
    const app = await start({
      server: ({ principal }) => {
        const server = new McpServer(
          { name: 'own', version: '1' },
          { supportedProtocolVersions: ['2026-07-28'], capabilities: { logging: {} } },
        );
        server.registerTool('own', { inputSchema: z.object({ n: z.number() }) }, async ({ n }, ctx) => {
          await turnstile.pass();
          await ctx.mcpReq.log('info', `log of ${n}`);
          await turnstile.pass();
          return { content: [{ type: 'text', text: `${n} of ${principal}` }] };
        });
        return server;
      },
    });
    const over = Promise.all(
      Array.from({ length: CLIENTS }, async (_, n) => {
        const client = new ModernClient(app.url, as(`user${n}`));
        return gists(await messagesOf(await client.call('own', { n }, { id: 1, logLevel: 'info' })));
      }),
    );
    await turnstile.run(over);
    expect(await over).toEqual(Array.from({ length: CLIENTS }, (_, n) => [`log of ${n}`, `${n} of user${n}`]));
    await app.settled(NOTHING);
  });

  it('concurrency: requests with similar ids are answered separately, with their ids unchanged', async () => {
    const turnstile = new Turnstile(seededRandom(4));
    const app = await start({ tools: { interleaved: interleaved(turnstile) } });
    const client = app.modern();
    const ids = [
      1,
      '1',
      0,
      '0',
      -1,
      '-1',
      '',
      ' 1',
      '1.0',
      2 ** 53 - 1,
      String(2 ** 53 - 1),
      -(2 ** 53 - 1),
      'null',
      '__proto__',
      'constructor',
      'x'.repeat(256),
      '\u0000',
      '💥',
      'toString',
    ];
    const over = Promise.all(
      ids.map(async (id, n) => messagesOf(await client.call('interleaved', { n, rounds: 2, quiet: true }, { id }))),
    );
    await expect.poll(() => turnstile.size).toBe(ids.length);
    await turnstile.run(over);
    for (const [n, messages] of (await over).entries()) {
      expect(messages).toHaveLength(1);
      expect(messages[0].id).toStrictEqual(ids[n]);
      expect(messages[0].result.structuredContent.seen.map((seen: Identity) => [seen.n, seen.requestId])).toEqual(
        Array.from({ length: 3 }, () => [n, ids[n]]),
      );
    }
    await app.settled(NOTHING);
  });

  it('concurrency: requests with one id on one kept-alive connection each get their own answer', async () => {
    const app = await start({ tools: { echo: ({ n }) => ({ n }) } });
    const client = app.modern();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const sockets = new Set<unknown>();
    const posted = (n: number) =>
      new Promise<{ id: unknown; result: { structuredContent: unknown } }>((resolve, reject) => {
        const message = client.message('tools/call', { name: 'echo', arguments: { n } }, { id: 1 });
        const sent = httpRequest(app.url, { method: 'POST', headers: client.headersOf(message), agent }, (response) => {
          sockets.add(response.socket);
          let text = '';
          response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
          response.on('end', () => resolve(JSON.parse(text)));
        });
        sent.on('error', reject).end(JSON.stringify(message));
      });
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => posted(n)));
    expect(answers.map(({ id, result }) => [id, result.structuredContent])).toEqual(
      Array.from({ length: 50 }, (_, n) => [1, { n }]),
    );
    expect(sockets.size).toBe(1);
    agent.destroy();
    await connectionsGone(app);
  });

  it('concurrency: a disconnect ends no other request, although all have the same id', async () => {
    const hold = gate();
    const entered: McpContext[] = [];
    const waits: Tool = async (_, ctx) => {
      entered.push(ctx);
      await hold.promise;
      await ctx.progress(1);
      return String(ctx.principal);
    };
    const app = await start({ tools: { waits } });
    const staying = Array.from({ length: 20 }, (_, n) =>
      new ModernClient(app.url, as(`stays${n}`)).call('waits', {}, { id: 1, progressToken: 1 }),
    );
    const leaving = Array.from({ length: 20 }, (_, n) =>
      forsakenCall(new ModernClient(app.url, as(`leaves${n}`)), 'waits', { id: 1, progressToken: 1 }),
    );
    await app.settled({ inFlight: 40 });
    await eventually(() => expect(entered).toHaveLength(40));
    const signals = entered.map(({ principal, signal }) => ({ principal, signal }));
    await Promise.all(leaving.map((post) => post.hangUp()));
    await app.settled({ inFlight: 20 });
    for (const { principal, signal } of signals) expect(signal.aborted).toBe(principal!.startsWith('leaves'));
    hold.open();
    const answers = await Promise.all(staying.map(async (answer) => gists(await messagesOf(await answer))));
    expect(answers).toEqual(Array.from({ length: 20 }, (_, n) => ['progress 1', `stays${n}`]));
    await app.settled(NOTHING);
  });
});
