import { randomToken } from '../base/random-token.js';
import { errorResponse, REQUEST_FAILED } from '../wire/errors.js';
import type { JsonRpcRequest, JsonRpcResponse, RequestId } from '../wire/json-rpc.js';
import { sessionMessages } from './session.messages.js';

/** Requests that are served though no client waits for them: a session is being rebuilt from its record. */
export class Replays {
  #waiting: Map<RequestId, (answer: JsonRpcResponse) => void> | undefined;
  #over = false;

  /** @returns the answer; an error when the session ends before */
  serve(
    { method, params }: Pick<JsonRpcRequest, 'method' | 'params'>,
    hand: (request: JsonRpcRequest) => void,
  ): Promise<JsonRpcResponse> {
    const id = `replay-${randomToken()}`;
    if (this.#over) return Promise.resolve(sessionOver(id));
    return new Promise((resolve) => {
      (this.#waiting ??= new Map()).set(id, resolve);
      hand({ jsonrpc: '2.0', id, method, params });
    });
  }

  /** @returns whether the answer is that of a replay: no client is to see it */
  answered(answer: JsonRpcResponse): boolean {
    const resolve = this.#waiting?.get(answer.id!);
    if (!resolve) return false;
    this.#waiting!.delete(answer.id!);
    resolve(answer);
    return true;
  }

  /** The session is over. */
  clear(): void {
    this.#over = true;
    for (const [id, resolve] of this.#waiting ?? []) resolve(sessionOver(id));
    this.#waiting = undefined;
  }
}

function sessionOver(id: RequestId): JsonRpcResponse {
  return errorResponse(id, REQUEST_FAILED, sessionMessages.sessionOver()) as JsonRpcResponse;
}
