import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { filter, firstValueFrom, Subject } from 'rxjs';

/** A message that a client received. */
export interface Received {
  id?: string | number;
  method?: string;
  params?: Record<string, unknown>;
  result?: unknown;
}

interface CallOptions {
  signal?: AbortSignal;
  onprogress?: (progress: { progress: number; total?: number; message?: string }) => void;
}

/** One of the official clients, in legacy mode: what both can do, under one name. */
export interface OfficialClient {
  readonly sessionId: string | undefined;
  /** What comes from the server, after the answer to `initialize`. Hot. */
  readonly received$: Subject<Received>;
  /** Data of the log messages that came. */
  readonly logs: unknown[];
  /** The status of each HTTP answer. */
  readonly answers: { method: string; status: number }[];
  tools(): Promise<string[]>;
  resources(): Promise<{ uri: string; name: string }[]>;
  /** The text of a resource. */
  read(uri: string): Promise<string>;
  subscribe(uri: string): Promise<void>;
  /** What is proposed for a variable of a resource template. */
  complete(template: string, variable: string, value: string): Promise<string[]>;
  /** The text that a tool answers. */
  call(tool: string, args?: Record<string, unknown>, options?: CallOptions): Promise<string>;
  /** A second transport on the session of this one, with its own standalone stream. */
  join(): Promise<OfficialClient>;
  terminate(): Promise<void>;
  /** Closes its connections; the session stays. */
  close(): Promise<void>;
}

/** A session that another transport has begun. */
interface JoinedSession {
  readonly sessionId: string;
  readonly protocolVersion: string;
  /** Request ids are unique within a session, but both clients count from 0. */
  readonly firstRequestId: number;
}

interface OfficialClientKind {
  readonly name: string;
  connect(url: URL, joined?: JoinedSession): Promise<OfficialClient>;
}

/** The document that the user of every client chooses, and what its model says of one. */
export const CHOICE = 'docs/guide.md';
export const SUMMARY = 'It is about nothing.';

const INFO = { name: 'official', version: '1.0.0' };
const CAPABILITIES = { capabilities: { elicitation: {}, sampling: {} } };
const ELICITED = { action: 'accept' as const, content: { name: CHOICE } };
const SAMPLED = { model: 'none', role: 'assistant' as const, content: { type: 'text' as const, text: SUMMARY } };
/** Patient enough for a server that is busy; `retry` of the server replaces the delays. */
const RECONNECTION = {
  initialReconnectionDelay: 20,
  maxReconnectionDelay: 20,
  reconnectionDelayGrowFactor: 1,
  maxRetries: 2,
};

const v2: OfficialClientKind = {
  name: '@modelcontextprotocol/client 2.4',
  async connect(url, joined) {
    const tap = new Wiretap();
    // Without `versionNegotiation` it is legacy.
    const client = new ClientV2(INFO, CAPABILITIES);
    client.setRequestHandler('elicitation/create', () => ELICITED);
    client.setRequestHandler('sampling/createMessage', () => SAMPLED);
    const transport = new TransportV2(url, { fetch: tap.fetch, reconnectionOptions: RECONNECTION, ...joined });
    await client.connect(transport);
    await tap.listen(client, transport, joined);
    return facade(v2, url, tap, client, transport);
  },
};

const v1: OfficialClientKind = {
  name: '@modelcontextprotocol/sdk 1.32',
  async connect(url, joined) {
    const tap = new Wiretap();
    const client = new ClientV1(INFO, CAPABILITIES);
    client.setRequestHandler(ElicitRequestSchema, () => ELICITED);
    client.setRequestHandler(CreateMessageRequestSchema, () => SAMPLED);
    const transport = new TransportV1(url, { fetch: tap.fetch, reconnectionOptions: RECONNECTION, ...joined });
    if (joined) transport.setProtocolVersion(joined.protocolVersion);
    await client.connect(transport);
    await tap.listen(client, transport, joined);
    const ask = client.callTool.bind(client);
    const callTool = (params: Parameters<typeof ask>[0], options: CallOptions) => ask(params, undefined, options);
    return facade(v1, url, tap, Object.assign(client, { callTool }) as unknown as ClientV2, transport);
  },
};

/** Both, in legacy mode. */
export const OFFICIAL_CLIENTS: readonly OfficialClientKind[] = [v2, v1];

interface Transport {
  onmessage?: ((message: never, extra?: never) => void) | undefined;
  readonly sessionId?: string | undefined;
  readonly protocolVersion?: string | undefined;
  terminateSession(): Promise<void>;
}

/** Sees what goes between a client and its server. */
class Wiretap {
  readonly received$ = new Subject<Received>();
  readonly logs: unknown[] = [];
  readonly answers: { method: string; status: number }[] = [];

  readonly fetch = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const response = await fetch(url, init);
    this.answers.push({ method: init?.method ?? 'GET', status: response.status });
    return response;
  };

  /** To be called after `connect`, which installs the callback. */
  async listen(
    client: { notification(of: { method: 'notifications/initialized' }): Promise<void> },
    transport: Transport,
    joined?: JoinedSession,
  ): Promise<void> {
    const handle = transport.onmessage;
    transport.onmessage = (message: never, extra?: never) => {
      const { method, params } = message as Received;
      if (method === 'notifications/message') this.logs.push(params!['data']);
      this.received$.next(message);
      handle?.call(transport, message, extra);
    };
    if (!joined) return;
    // A client that joins skips the handshake; saying that it is initialized makes it open its standalone stream.
    Reflect.set(client, '_requestMessageId', joined.firstRequestId);
    await client.notification({ method: 'notifications/initialized' });
  }
}

let joins = 0;

function facade(
  kind: OfficialClientKind,
  url: URL,
  { received$, logs, answers }: Wiretap,
  client: ClientV2,
  transport: Transport,
): OfficialClient {
  return {
    received$,
    logs,
    answers,
    get sessionId() {
      return transport.sessionId;
    },
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    resources: async () => (await client.listResources()).resources,
    read: async (uri) => textOf((await client.readResource({ uri })).contents),
    subscribe: async (uri) => void (await client.subscribeResource({ uri })),
    complete: async (uri, name, value) => {
      const params = { ref: { type: 'ref/resource' as const, uri }, argument: { name, value } };
      return (await client.complete(params)).completion.values;
    },
    call: async (name, args = {}, options = {}) =>
      textOf((await client.callTool({ name, arguments: args }, options)).content),
    join: () => {
      const { sessionId = '', protocolVersion = '' } = transport;
      return kind.connect(url, { sessionId, protocolVersion, firstRequestId: ++joins * 100_000 });
    },
    terminate: () => transport.terminateSession(),
    close: () => client.close(),
  };
}

function textOf(parts: unknown): string {
  return (parts as { text: string }[]).map(({ text }) => text).join('\n');
}

/** The next notification of a method; to be called before what causes it. */
export function notified({ received$ }: OfficialClient, method: string): Promise<Received> {
  return firstValueFrom(received$.pipe(filter((message) => message.method === method)));
}
