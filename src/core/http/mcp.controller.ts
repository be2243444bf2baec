import { Delete, Get, Inject, Post, Req, Res } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { after } from '../common/promises.js';
import { McpClock } from '../common/clock.js';
import { McpEndpoint, type McpIncoming } from '../eras/mcp-endpoint.js';
import type { McpEvent } from '../protocol/events.js';
import { Challenges, whileAuthorized } from './credentials.js';
import { McpRequestReader } from './mcp-incoming.js';
import { McpResponder } from './responder.js';

/**
 * # The MCP endpoint as a controller of Nest
 *
 * Each `forRoot()` makes a subclass, which carries the path, the guards and the decorators of its endpoint. Before a
 * method runs, the session guard has read the request, and found the session that it names.
 *
 *     POST ─▶ messages ─▶ calls ─▶ JSON, or events$
 *     GET ─▶ session ─▶ events$
 *     DELETE ─▶ session ends
 *
 * A request that has been answered meanwhile is not served: an interceptor of the app may call the controller late (E17).
 *
 * A response is written by the responder: a promise that lasted as long as the stream would let a timeout of the app end
 * it, and an interceptor that maps what a controller returns would break its events.
 *
 * @publicApi
 */
export abstract class McpController {
  // Injected into properties, so that a subclass can have its own constructor.
  /** @internal */
  @Inject(McpEndpoint) protected readonly endpoint!: Pick<McpEndpoint, 'post' | 'get' | 'delete'>;
  /** @internal */
  @Inject(McpRequestReader) protected readonly requests!: McpRequestReader;
  /** @internal */
  @Inject(McpResponder) protected readonly responses!: McpResponder;
  /** @internal */
  @Inject(McpClock) protected readonly clock!: McpClock;
  /** @internal */
  @Inject(Challenges) protected readonly challenges!: Challenges;

  /** Takes messages of a client: each request among them becomes a call, and is answered by JSON or by a stream (P1–P3). */
  @Post()
  post(@Req() request: object, @Res() response: object): void | Promise<void> {
    if (this.responses.isAnswered(response)) return;
    const incoming = this.requests.of(request);
    return after(this.endpoint.post(incoming), (exchange) =>
      after(this.responses.replyOf(exchange, response), (reply) => {
        if (reply.kind !== 'events')
          return this.responses.send(response, this.challenges.by?.reply(reply, request) ?? reply);
        const stream = this.responses.stream(response);
        if (!stream) return exchange.cancel();
        this.requests.release(request);
        const events$: Observable<McpEvent> = reply.open(stream);
        // A request with a valid token is answered even if the token expires meanwhile; a subscription would never end.
        stream.start(listens(incoming) ? whileAuthorized(events$, request, this.clock) : events$);
      }),
    );
  }

  /** Opens a stream of the session: the standalone one, or the one of `Last-Event-ID` from where the client stopped (G1–G9). */
  @Get()
  async get(@Req() request: object, @Res() response: object): Promise<void> {
    if (this.responses.isAnswered(response)) return;
    const incoming = this.requests.of(request);
    const reply = await this.endpoint.get(incoming);
    if (reply.kind !== 'events') return this.responses.send(response, reply);
    const stream = this.responses.stream(response);
    if (!stream) return;
    this.requests.release(request);
    const events$: Observable<McpEvent> = reply.open(stream);
    stream.start(whileAuthorized(events$, request, this.clock));
  }

  /** Ends the session (S12). */
  @Delete()
  delete(@Req() request: object, @Res() response: object): void | Promise<void> {
    if (this.responses.isAnswered(response)) return;
    return this.endpoint
      .delete(this.requests.of(request))
      .then(() => this.responses.send(response, { kind: 'empty', status: 204 }));
  }
}

function listens({ body: { messages } }: McpIncoming): boolean {
  const [message] = messages;
  return message !== undefined && 'method' in message && message.method === 'subscriptions/listen';
}
