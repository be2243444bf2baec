import { Inject, Injectable, type OnModuleDestroy } from '@nestjs/common';
import { MCP_DEV_STORES } from '../calls/replaceable-part.js';
import { McpEndpoint } from '../eras/mcp-endpoint.js';
import { BusNodes } from '../nodes/bus-nodes.js';
import { EndpointShutdown } from './endpoint-shutdown.js';
import { McpRequestReader } from './mcp-incoming.js';
import { McpResponder } from './responder.js';

/** Clients have this many milliseconds to read their responses to the end. */
const LAST_READS_MS = 300;

/**
 * # The order in which one endpoint stops
 *
 * Running calls end; then every open call is answered and every stream ended, so that the app's server can close; then responses are
 * sent to their end, and the node leaves the bus. All endpoints of an app do so at the same time, before other modules are destroyed.
 */
@Injectable()
export class EndpointStop implements OnModuleDestroy {
  #stopped: Promise<void> | undefined;

  constructor(
    @Inject(McpEndpoint) private readonly endpoint: McpEndpoint,
    @Inject(McpRequestReader) private readonly reader: McpRequestReader,
    @Inject(McpResponder) private readonly responder: McpResponder,
    @Inject(BusNodes) private readonly nodes: BusNodes,
    @Inject(MCP_DEV_STORES) private readonly devStores: { close(): void } | undefined,
    @Inject(EndpointShutdown) shutdown: EndpointShutdown,
  ) {
    const { shutdownDelayMs: delayMs } = endpoint;
    shutdown.add({ delayMs, leave: () => endpoint.leave(), stop: () => this.onModuleDestroy() });
  }

  /** Stops the endpoint, if `EndpointShutdown` has not; reports its failure. */
  onModuleDestroy(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    // First: the next process may be waiting for the end of this one.
    this.devStores?.close();
    await this.endpoint.drain();
    this.reader.close();
    await this.endpoint.close();
    await this.responder.drain(LAST_READS_MS);
    await this.nodes.leave();
  }
}
