import { parseAuthChallenge, type McpAuthChallenge } from '../../client/auth-challenge.js';
import type { McpAppFetch } from './app-agent.js';

/** Describes how an app refused a caller: by HTTP, before a handler ran. @publicApi */
export interface McpTestRefusal {
  status: 401 | 403;
  /** The text of the JSON-RPC error. */
  message: string;
  /** `WWW-Authenticate` names where a client can log in, or which scopes it lacks. */
  challenge: McpAuthChallenge | undefined;
}

/** Maps the errors that clients of the kit have thrown to the refusals behind them. */
const BEHIND = new WeakMap<object, McpTestRefusal>();

/**
 * Returns how a caller is refused with 401 or 403.
 *
 * ```ts
 * const refusal = await refusalOf(createMcpTestClient(app, { token: 'expired' }));
 * expect(refusal).toMatchObject({ status: 401, challenge: { error: 'invalid_token' } });
 * ```
 *
 * @param attempt a client that connects, or a request of one, which must be refused
 * @throws Error (rejects) when it is not refused with one of them, with what happened instead
 * @publicApi
 */
export async function refusalOf(attempt: Promise<unknown>): Promise<McpTestRefusal> {
  let value: unknown;
  try {
    value = await attempt;
  } catch (error) {
    const refusal = BEHIND.get(error as object);
    if (refusal) return refusal;
    throw new Error(`The request failed, but not with 401 or 403: ${String(error)}`, { cause: error });
  }
  if (typeof (value as Partial<AsyncDisposable> | undefined)?.[Symbol.asyncDispose] !== 'function')
    throw new Error(`The request was not refused, and returned ${JSON.stringify(value)}.`);
  await (value as AsyncDisposable)[Symbol.asyncDispose]();
  throw new Error('The client was not refused: it has connected.');
}

/** Notes refusals on their way to a client. */
export class RefusalWatch {
  #last: McpTestRefusal | undefined;

  /** Returns a `fetch` whose refusals are noted. */
  watching(fetch: McpAppFetch): McpAppFetch {
    return async (input, init) => {
      const response = await fetch(input, init);
      const { status } = response;
      if (status === 401 || status === 403) {
        const challenge = parseAuthChallenge(response.headers.get('www-authenticate'));
        this.#last = { status, challenge, message: messageIn(await response.clone().text()) };
      }
      return response;
    };
  }

  /** Passes a result or an error on, and remembers the refusal behind the error. */
  async attribute<T>(work: () => Promise<T>): Promise<T> {
    const before = this.#last;
    try {
      return await work();
    } catch (error) {
      if (this.#last && this.#last !== before) BEHIND.set(error as object, this.#last);
      throw error;
    }
  }
}

function messageIn(body: string): string {
  try {
    return (JSON.parse(body) as { error: { message: string } }).error.message;
  } catch {
    return body;
  }
}
