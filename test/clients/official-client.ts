import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js';

/** One of the official clients, in legacy mode: what both can do, under one name. */
export interface OfficialClient {
  readonly sessionId: string;
  /** What came as `notifications/message`. */
  readonly logs: unknown[];
  /** The text that a tool answers. */
  call(tool: string, args?: Record<string, unknown>, options?: CallOptions): Promise<string>;
  /** A second transport on the session of this one, with its own standalone stream. */
  join(): Promise<OfficialClient>;
  terminate(): Promise<void>;
  /** Closes its connections; the session stays. */
  close(): Promise<void>;
}

export interface CallOptions {
  signal?: AbortSignal;
  onprogress?: () => void;
}

export interface OfficialClientKind {
  readonly name: string;
  connect(url: URL, joined?: JoinedSession): Promise<OfficialClient>;
}

/** A session that another transport has begun. */
interface JoinedSession {
  readonly sessionId: string;
  readonly protocolVersion: string;
  /** Request ids are unique within a session, but both clients count from 0. */
  readonly firstRequestId: number;
}

const INFO = { name: 'settling', version: '1.0.0' };
/** Patient enough for a server that is busy; `retry` of the server replaces the delays. */
const RECONNECTION = {
  initialReconnectionDelay: 20,
  maxReconnectionDelay: 20,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 2,
};
const INITIALIZED = { method: 'notifications/initialized' } as const;

const v2: OfficialClientKind = {
  name: '@modelcontextprotocol/client 2.4',
  async connect(url, joined) {
    const client = new ClientV2(INFO);
    const logs: unknown[] = [];
    client.setNotificationHandler('notifications/message', ({ params }) => void logs.push(params.data));
    const transport = new TransportV2(url, { reconnectionOptions: RECONNECTION, ...joined });
    await client.connect(transport);
    if (joined) await take(client, joined.firstRequestId, () => client.notification(INITIALIZED));
    return facade(v2, url, transport, {
      logs,
      call: async (name, args, options) => textOf(await client.callTool({ name, arguments: args }, options)),
      close: () => client.close(),
    });
  },
};

const v1: OfficialClientKind = {
  name: '@modelcontextprotocol/sdk 1.32',
  async connect(url, joined) {
    const client = new ClientV1(INFO);
    const logs: unknown[] = [];
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logs.push(params.data));
    const transport = new TransportV1(url, { reconnectionOptions: RECONNECTION, ...joined });
    if (joined) transport.setProtocolVersion(joined.protocolVersion);
    await client.connect(transport);
    if (joined) await take(client, joined.firstRequestId, () => client.notification(INITIALIZED));
    return facade(v1, url, transport, {
      logs,
      call: async (name, args, options) => textOf(await client.callTool({ name, arguments: args }, undefined, options)),
      close: () => client.close(),
    });
  },
};

export const OFFICIAL_CLIENTS: readonly OfficialClientKind[] = [v2, v1];

/** A client that joins skips the handshake; saying that it is initialized makes it open its standalone stream. */
async function take(client: object, firstRequestId: number, initialized: () => Promise<void>): Promise<void> {
  Reflect.set(client, '_requestMessageId', firstRequestId);
  await initialized();
}

interface Transport {
  readonly sessionId?: string | undefined;
  readonly protocolVersion?: string | undefined;
  terminateSession(): Promise<void>;
}

let joins = 0;

function facade(
  kind: OfficialClientKind,
  url: URL,
  transport: Transport,
  calls: {
    logs: unknown[];
    call(name: string, args: Record<string, unknown>, options: CallOptions): Promise<string>;
    close(): Promise<void>;
  },
): OfficialClient {
  const sessionId = transport.sessionId!;
  const protocolVersion = transport.protocolVersion!;
  return {
    sessionId,
    logs: calls.logs,
    call: (tool, args = {}, options = {}) => calls.call(tool, args, options),
    join: () => kind.connect(url, { sessionId, protocolVersion, firstRequestId: ++joins * 100_000 }),
    terminate: () => transport.terminateSession(),
    close: () => calls.close(),
  };
}

function textOf(result: unknown): string {
  const { content } = result as { content: { text: string }[] };
  return content[0]!.text;
}
