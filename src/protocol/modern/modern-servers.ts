import type { Server, ServerCapabilities } from '@modelcontextprotocol/server';
import { deferred } from '../../base/deferred.js';
import type { McpHttpCall } from '../../context/mcp-call.js';
import { type McpError, shutdownRefusal } from '../../wire/errors.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../../wire/revisions.js';
import { type ChannelEars, ModernChannel } from './modern-channel.js';
import { unsupportedRevision } from './modern-classification.js';

/**
 * The servers that modern requests are dispatched by.
 *
 * A server over decorated handlers keeps nothing of a request: what it knows of the caller it reads from the request's own
 * envelope, and all it does is kept by request id, which a channel makes unique. So one serves all requests of an endpoint.
 * (That it is safe is shown by test/modern/concurrency.spec.ts.) What a server of the application keeps we cannot know, and
 * it may differ by caller: that one is made for each request.
 */
export abstract class ModernServers {
  /**
   * @returns a channel, and what to do when the request is over
   * @throws McpError UNSUPPORTED_PROTOCOL_VERSION when the server does not speak the revision; UNAVAILABLE when it was not
   *   made before `close()`
   */
  abstract take(http: McpHttpCall): Promise<TakenChannel>;
  abstract close(): Promise<void>;

  /** What the server of a caller declares. @throws McpError as `take` */
  async capabilities(http: McpHttpCall): Promise<ServerCapabilities> {
    const { server, release } = await this.take(http);
    release();
    return server.getCapabilities();
  }
}

export interface TakenChannel {
  readonly channel: ModernChannel;
  readonly server: Server;
  readonly release: () => void;
}

export interface ModernServersParts extends ChannelEars {
  /** One server may serve all requests. */
  readonly shared: boolean;
  /** Makes a server, for a request or for all. */
  create(http: McpHttpCall | undefined): Promise<Server>;
  /** Called when a server turns out to speak older revisions only. */
  onLegacyServer(): void;
}

export function modernServers(parts: ModernServersParts): ModernServers {
  return parts.shared ? new SharedServer(parts) : new ServerPerRequest(parts);
}

async function connected(parts: ModernServersParts, http: McpHttpCall | undefined): Promise<TakenChannel> {
  const server = await parts.create(http);
  const channel = await ModernChannel.connect(server, parts);
  if (channel) return { channel, server, release: () => {} };
  await server.close();
  parts.onLegacyServer();
  throw unsupportedRevision(MODERN_REVISIONS[0], LEGACY_REVISIONS, null);
}

class SharedServer extends ModernServers {
  #taken: Promise<TakenChannel> | undefined;

  constructor(private readonly parts: ModernServersParts) {
    super();
  }

  take(): Promise<TakenChannel> {
    return (this.#taken ??= connected(this.parts, undefined));
  }

  async close(): Promise<void> {
    await (await this.#taken)?.channel.close();
  }
}

class ServerPerRequest extends ModernServers {
  readonly #open = new Set<Server>();
  /** Give up a server that is being made. */
  readonly #making = new Set<(reason: McpError) => void>();

  constructor(private readonly parts: ModernServersParts) {
    super();
  }

  /** The application may take its time; a node that stops does not wait for it. */
  async take(http: McpHttpCall): Promise<TakenChannel> {
    const { promise: givenUp, reject } = deferred<never>();
    const made = connected(this.parts, http).then(({ server, channel }) => {
      this.#open.add(server);
      const taken = { server, channel, release: () => this.#retire(server) };
      if (!this.#making.delete(reject)) taken.release();
      return taken;
    });
    this.#making.add(reject);
    try {
      return await Promise.race([made, givenUp]);
    } finally {
      this.#making.delete(reject);
    }
  }

  close(): Promise<void> {
    const reason = shutdownRefusal();
    for (const giveUp of this.#making) giveUp(reason);
    this.#making.clear();
    for (const server of this.#open) this.#retire(server);
    return Promise.resolve();
  }

  /**
   * The server hears that it is closed, and stays connected to a channel that carries nothing any more: what its handler
   * still says is dropped (P8). Without a transport it would reject it, and a rejection that nobody awaits ends the process:
   * any client could do that by closing its connection.
   */
  #retire(server: Server): void {
    // Without one it has closed itself, and has heard of it.
    if (!this.#open.delete(server) || !server.transport) return;
    try {
      server.onclose?.();
    } catch (error) {
      this.parts.report(error);
    }
  }
}
