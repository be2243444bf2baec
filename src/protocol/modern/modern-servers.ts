import type { Server, ServerCapabilities } from '@modelcontextprotocol/server';
import type { McpHttpCall } from '../../call/mcp-call.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../../wire/revisions.js';
import { ModernChannel } from './modern-channel.js';
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
   * @throws McpError UNSUPPORTED_PROTOCOL_VERSION when the server does not speak the revision
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
  release(): void;
}

export interface ModernServersParts {
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
  const channel = await ModernChannel.connect(server);
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
  readonly #open = new Set<ModernChannel>();

  constructor(private readonly parts: ModernServersParts) {
    super();
  }

  async take(http: McpHttpCall): Promise<TakenChannel> {
    const taken = await connected(this.parts, http);
    const { channel } = taken;
    this.#open.add(channel);
    const release = (): void => {
      if (this.#open.delete(channel)) void channel.close();
    };
    return { ...taken, release };
  }

  async close(): Promise<void> {
    const open = [...this.#open];
    this.#open.clear();
    await Promise.all(open.map((channel) => channel.close()));
  }
}
