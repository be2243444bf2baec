import { type CallingClient, McpCall, type McpHttpCall } from '../context/mcp-call.js';
import type { Calls } from '../exchange/calls.js';
import { Exchange, type ExchangeForm } from '../exchange/exchange.js';
import { ResponseSink } from '../exchange/response-sink.js';
import { shutdownRefusal } from '../wire/errors.js';
import type { JsonRpcRequest } from '../wire/json-rpc.js';

/**
 * Serves requests of clients without a session: the response is the only way back to them, and there is no event id.
 * When it breaks, its requests are cancelled (P4).
 */
export class BareRequests {
  constructor(
    private readonly calls: Calls,
    private readonly form: Pick<ExchangeForm, 'clock' | 'mode' | 'sseAfterMs'> & { readonly maxBufferedBytes: number },
  ) {}

  /**
   * @param requests of one POST; the first may be an `initialize`, which is answered as JSON
   * @throws McpError UNAVAILABLE when the endpoint is closed
   */
  serve(http: McpHttpCall, requests: readonly JsonRpcRequest[], batch: boolean, client: CallingClient): Exchange {
    const { calls, form } = this;
    if (calls.state === 'stopped') throw shutdownRefusal();
    const mode = requests[0]!.method === 'initialize' ? 'json' : form.mode;
    const exchange = new Exchange(
      requests.map(({ id }) => id),
      {
        clock: form.clock,
        mode,
        sseAfterMs: form.sseAfterMs,
        batch,
        clientsComeBack: false,
        sink: (_requests, cut) => new ResponseSink(form.maxBufferedBytes, cut),
        clientGone: () => {
          for (const call of made) calls.cancel(call, new Error('The client closed the connection.'));
        },
      },
    );
    const made = requests.map((request) => new McpCall(http, request, client, exchange));
    for (const call of made) calls.add(call);
    for (const call of made) calls.dispatch(call);
    // Not before: a refusal of the dispatcher has an HTTP status.
    if (mode === 'sse') exchange.stream();
    return exchange;
  }
}
