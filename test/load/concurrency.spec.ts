import type { CanActivate, ExecutionContext } from '@nestjs/common';
import { currentMcpCall } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate, TestApp, type TestTool } from '../support/app.js';
import type { RawResponse } from '../support/http.js';
import type { RawClient } from '../support/raw-client.js';
import { seededRandom } from '../support/share.js';

const SESSIONS = 100;
/** Numbers and texts that look alike, the same in every session. */
const REQUEST_IDS = [1, 2, 3, '1', '2', '3', 'call', '__proto__', 'constructor', 0];
const USERS = ['ann', 'bob'];

/** Everybody who knows the token shares one promise: what a cached token lookup does. */
class CachedTokenGuard implements CanActivate {
  readonly #users = new Map<string, Promise<{ sub: string; token: string }>>();
  lookups = 0;

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const request = context.switchToHttp().getRequest();
    const token = String(request.headers.authorization);
    let user = this.#users.get(token);
    if (!user) {
      this.lookups++;
      user = new Promise((resolve) => setImmediate(() => resolve({ sub: token.split(' ')[1]!.split('.')[0]!, token })));
      this.#users.set(token, user);
    }
    // A copy: guards that put one object on all requests share it knowingly.
    request.user = { ...(await user) };
    return true;
  }
}

interface Identity {
  user: string;
  principal: string | undefined;
  session: string | undefined;
  requestId: unknown;
  header: string;
  args: unknown;
}

/** Who is being served, as a handler can find out at any moment. */
function identity(args: unknown): Identity {
  const call = currentMcpCall()!;
  const request = call.request as { user: { sub: string }; headers: Record<string, string> };
  return {
    user: request.user.sub,
    principal: call.principal,
    session: call.session?.id,
    requestId: call.requestId,
    header: request.headers['x-call']!,
    args,
  };
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
  /** Opens for one of those who wait. */
  turn(): void {
    const position = Math.floor(this.random() * this.#waiting.length);
    this.#waiting.splice(position, 1)[0]?.();
  }
}

describe.each(ONE_ADAPTER)('100 sessions with 10 interleaved calls each on %s', (adapter) => {
  it.each([1, 2])(
    'concurrency: no answer, header or user ever crosses over (seed %i)',
    async (seed) => {
      const random = seededRandom(seed);
      const turnstile = new Turnstile(random);
      const guard = new CachedTokenGuard();
      /** Looks around, talks, waits for its turn, and looks again. */
      const interleaved: TestTool = async (args, ctx) => {
        const seen = [identity(args)];
        for (let round = 0; round < Number(args['rounds']); round++) {
          await turnstile.pass();
          seen.push(identity(args));
          if (args['talks']) {
            await ctx.log('info', seen.at(-1));
          }
        }
        return JSON.stringify(seen);
      };
      const app = await TestApp.start({
        adapter,
        port: true,
        guards: [guard],
        sseAfterMs: 60_000,
        maxSessionsPerPrincipal: SESSIONS,
        tools: { interleaved },
      });
      const clients = await Promise.all(
        Array.from({ length: SESSIONS }, (_, i) => {
          const user = USERS[i % 2]!;
          // Some tokens are shared by sessions, some users have several.
          return app.client({ authorization: `Bearer ${user}.token${i % 6}` }).initialize();
        }),
      );
      expect(guard.lookups).toBe(6);

      const calls: {
        client: RawClient;
        id: string | number;
        expected: Identity;
        talks: boolean;
        answer: Promise<RawResponse>;
      }[] = [];
      for (const requestId of REQUEST_IDS) {
        for (const [i, client] of clients.entries()) {
          const header = `session ${i} call ${typeof requestId} ${requestId}`;
          const talks = random() < 0.3;
          const args = { header, talks, rounds: 1 + Math.floor(random() * 3) };
          const call = client.toolCall('interleaved', args, { id: requestId });
          const user = USERS[i % 2]!;
          const expected = { user, principal: user, session: client.sessionId, requestId, header, args };
          calls.push({ client, id: requestId, expected, talks, answer: client.post(call, { 'x-call': header }) });
        }
      }
      const answers = Promise.all(calls.map(({ answer }) => answer));
      // One answer after the other, as long as there are any: by chance, not by order.
      const progress = { answered: false };
      void answers.then(() => (progress.answered = true));
      await expect.poll(() => turnstile.size).toBe(calls.length);
      expect(await app.service.counts()).toMatchObject({ sessions: SESSIONS, inFlight: calls.length });
      while (!progress.answered || turnstile.size > 0) {
        for (let i = 0; i < 10; i++) turnstile.turn();
        await new Promise(setImmediate);
      }

      for (const [i, response] of (await answers).entries()) {
        const { id, expected, talks } = calls[i]!;
        const messages = await messagesOf(response);
        const last = messages.at(-1);
        expect(last.id).toStrictEqual(id);
        const seen = JSON.parse(last.result.content[0].text);
        const rounds = (expected.args as { rounds: number }).rounds;
        expect(seen).toEqual(Array.from({ length: rounds + 1 }, () => expected));
        const said = messages.slice(0, -1).map(({ params }) => params.data);
        expect(said).toEqual(Array.from({ length: talks ? rounds : 0 }, () => expected));
      }
      await app.settled({ inFlight: 0, streams: 0, readers: 0, openResponses: 0 });
      await app.close();
    },
    60_000,
  );
});

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
async function messagesOf(response: RawResponse): Promise<any[]> {
  if (response.header('content-type')?.startsWith('application/json')) return [await response.json()];
  const stream = response.sse();
  expect(await stream.end()).toBe('end');
  return stream.messages;
}
