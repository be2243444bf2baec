import { deferred, once } from '../core/common/promises.js';
import { isRequest, type JsonRpcMessage, type RequestId } from '../core/protocol/json-rpc.js';
import { McpClientTransportError } from './client.errors.js';
import { abortable } from './waiting.js';

/** So many answers are on their way to the server at once; further ones wait. */
const MAX_POSTS = 32;
/** So many requests of the server may be without an answer, those included whose answer waits or is on its way. */
const MAX_UNANSWERED = 256;

/**
 * # The requests of the server, and the answers of the client
 *
 *     arrives ──▶ handed on ──▶ answer waits ──▶ answer on its way ──▶ ended
 *        │            └── cancelled by the server ───────────────────▶ ended
 *        └──▶ refused: as many as allowed have no answer yet (rule C14)
 *
 * A refused request is dropped: an error would be one more answer to send. Reading goes on meanwhile, since the stream
 * may carry the answers of the client's own requests.
 *
 * Invariants: at most `MAX_POSTS` answers are on their way, at most `MAX_UNANSWERED` requests are held; one report from
 * the first request that is refused until all are answered.
 */
export class ServerRequests {
  /** Counts the requests with an id that have no answer: a server that is rebuilt begins its ids anew. */
  readonly #unanswered = new Map<RequestId, number>();
  #count = 0;
  #posts = 0;
  readonly #waiting: (() => void)[] = [];
  #reported = false;

  constructor(private readonly report: (error: Error) => void) {}

  /** Counts a message of the server. @returns whether the client gets it */
  admit(message: JsonRpcMessage): boolean {
    if (!isRequest(message)) {
      if ('method' in message && message.method === 'notifications/cancelled')
        this.settle(message.params?.['requestId'] as RequestId);
      return true;
    }
    if (this.#count >= MAX_UNANSWERED) {
      this.#refused();
      return false;
    }
    this.#count++;
    this.#unanswered.set(message.id, (this.#unanswered.get(message.id) ?? 0) + 1);
    return true;
  }

  /** Settles a request that was answered, or cancelled by the server, which then expects no answer. */
  settle(id: RequestId): void {
    const left = this.#unanswered.get(id);
    if (left === undefined) return;
    if (left === 1) this.#unanswered.delete(id);
    else this.#unanswered.set(id, left - 1);
    if (--this.#count === 0) this.#reported = false;
  }

  /**
   * Waits until one more answer may be on its way.
   *
   * @returns a function to call when that answer has arrived, or failed
   * @throws (rejects) the reason of the signal
   */
  async turn(signal: AbortSignal): Promise<() => void> {
    if (this.#posts < MAX_POSTS) this.#posts++;
    else {
      const turn = deferred();
      this.#waiting.push(turn.resolve);
      await abortable(turn.promise, signal);
    }
    return once(() => {
      const next = this.#waiting.shift();
      if (next) next();
      else this.#posts--;
    });
  }

  #refused(): void {
    if (this.#reported) return;
    this.#reported = true;
    const message = `The server sent a request while ${MAX_UNANSWERED} of its requests had no answer yet. It was dropped, and so are further ones until some are answered. Look for a loop in the server, or for a handler of this client that does not return.`;
    this.report(new McpClientTransportError('TOO_MANY_REQUESTS', message));
  }
}
