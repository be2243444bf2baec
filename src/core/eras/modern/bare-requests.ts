import { Inject, Injectable } from '@nestjs/common';
import { MCP_OPTIONS } from '../../common/options.js';
import { type CallingClient, McpCall, type McpHttpCall } from '../../calls/mcp-call.js';
import { Exchange } from '../../calls/exchange.js';
import { type ResolvedResponseOptions } from '../../calls/response.options.js';
import { ResponseSink } from '../../calls/response-sink.js';
import { SessionRuntime } from '../../sessions/session-runtime.js';
import { shutdownRefusal } from '../../protocol/errors.js';
import type { JsonRpcRequest } from '../../protocol/json-rpc.js';

/**
 * Serves requests of clients without a session: messages can reach them on the response only, without event ids. When
 * its connection is lost, its requests are cancelled (P4).
 */
@Injectable()
export class BareRequests {
  constructor(
    @Inject(SessionRuntime)
    private readonly runtime: Pick<SessionRuntime, 'calls' | 'clock' | 'options'>,
    @Inject(MCP_OPTIONS) private readonly options: Pick<ResolvedResponseOptions, 'maxBufferedBytes'>,
  ) {}

  /**
   * @param requests the requests of one POST; the first may be an `initialize`, which is answered as JSON
   * @throws McpError UNAVAILABLE when the endpoint is closed
   */
  serve(http: McpHttpCall, requests: readonly JsonRpcRequest[], batch: boolean, client: CallingClient): Exchange {
    const { calls, clock } = this.runtime;
    const { responseMode, sseAfterMs } = this.runtime.options;
    if (calls.shutdown.is === 'stopped') throw shutdownRefusal();
    const mode = requests[0]!.method === 'initialize' ? 'json' : responseMode;
    const exchange = new Exchange(
      requests.map(({ id }) => id),
      {
        clock,
        mode,
        sseAfterMs,
        batch,
        clientsComeBack: () => false,
        sink: (_requests, cut) => new ResponseSink(this.options.maxBufferedBytes, cut),
        clientGone: () => {
          for (const call of made) calls.cancel(call, new Error('The client closed the connection.'));
        },
      },
    );
    const made = requests.map((request) => new McpCall(http, request, client, exchange));
    calls.addAll(made);
    for (const call of made) calls.dispatch(call);
    // The stream begins last: a refusal of the dispatcher has an HTTP status.
    if (mode === 'sse') exchange.stream();
    exchange.streamLater();
    return exchange;
  }
}
