import type { CallToolResult, Client, Progress, RequestOptions, withOAuth } from '@modelcontextprotocol/client';
import type { BeforeApplicationShutdown } from '@nestjs/common';
import { Observable, ReplaySubject, switchMap } from 'rxjs';
import { resolveOptions } from '../../core/common/options.js';
import { loadSdk } from '../../core/protocol/spec.js';
import { McpClientTransportError } from '../client.errors.js';
import type { StreamableClientTransportOptions } from '../client.options.js';
import { StreamableClientTransport } from '../streamable-client-transport.js';
import { POLLED_META_KEY, McpTaskTransport } from '../task-transport.js';
import { nextTurn } from '../waiting.js';
import { CLIENT_TABLE, type McpClientOptions, type ResolvedMcpClientOptions } from './mcp-client.options.js';
import { namingTools, OutputSchemas } from './output-schemas.js';

/** A tool call emits progress, any number of times, then the result. @publicApi */
export type McpToolCallEvent =
  ({ readonly type: 'progress' } & Progress) | { readonly type: 'result'; readonly result: CallToolResult };

/**
 * # One MCP server, for a Nest app
 *
 *     idle ──first use──▶ connecting ──▶ connected ──lost, closed by the server──▶ idle
 *                             │ failed ──▶ idle
 *     any ──close(), shutdown──▶ closed
 *
 * This class holds the official `Client`, connected over a {@link StreamableClientTransport}, and replaces both when
 * the session is lost for good: an official `Client` serves one connection only, but providers inject this class once.
 *
 * Invariants: at most one connection at a time, and one attempt for all callers that wait; no connection is opened
 * after `close()`.
 *
 * @publicApi
 */
export class McpClient implements BeforeApplicationShutdown {
  /** Resolves with the connected client; `undefined` between connections. */
  #connection: Promise<Client> | undefined;
  #transport: StreamableClientTransport | undefined;
  #closing: Promise<void> | undefined;
  /** Settles when the last connection that was lost is closed. */
  #dropped: Promise<void> | undefined;
  readonly #transports$ = new ReplaySubject<StreamableClientTransport>(1);

  /**
   * Emits the state of the current connection, and of each later one; nothing before the first one. Completes when closed.
   */
  readonly state$ = this.#transports$.pipe(switchMap(({ state$ }) => state$));
  /** Emits like {@link StreamableClientTransport.reconnects$}, for each connection. */
  readonly reconnects$ = this.#transports$.pipe(switchMap(({ reconnects$ }) => reconnects$));
  /** Emits like {@link StreamableClientTransport.recoveries$}, for each connection. */
  readonly recoveries$ = this.#transports$.pipe(switchMap(({ recoveries$ }) => recoveries$));

  /** @internal */
  constructor(
    /** The key of the client in the option `clients`. */
    readonly name: string,
    private readonly options: ResolvedMcpClientOptions,
    private readonly clientPackage: ClientPackage,
  ) {}

  /**
   * Makes a client outside of `McpClientModule`, such as one for each user of a gateway. It connects when it is used; close it.
   *
   * @param name names it in messages
   * @throws (rejects) McpOptionError; McpClientPackageError when `@modelcontextprotocol/client` is not installed
   */
  static async create(name: string, options: McpClientOptions): Promise<McpClient> {
    const resolved = resolveOptions(CLIENT_TABLE, options);
    // It is loaded here, so that an app without the package does not start.
    const [clientPackage] = await Promise.all([loadClientPackage(), loadSdk()]);
    return new McpClient(name, resolved, clientPackage);
  }

  /**
   * Returns the official client, connected: the first call connects, and so does the first one after a connection that was
   * lost. Use it at once, and call this method again the next time.
   *
   * @throws (rejects) what `Client.connect` throws, such as McpHttpUnauthorizedError; NOT_CONNECTED when it is closed. The
   *   next call tries again.
   */
  client(): Promise<Client> {
    if (this.#closing) return Promise.reject(this.#closed());
    return (this.#connection ??= this.#connect());
  }

  /**
   * Calls a tool. A call that the server turns into a task is polled until the task has ended.
   *
   * @param name the name of the tool
   * @param args its arguments
   * @param options the options of the official client: `signal`, `timeout` in milliseconds, `onprogress`, …
   * @returns the result; `isError` says that the tool has failed
   * @throws (rejects) what `client()` and `Client.callTool` throw
   */
  async callTool(name: string, args: Record<string, unknown> = {}, options?: RequestOptions): Promise<CallToolResult> {
    const client = await this.client();
    // Progress restarts the timeout of a task; there are no such tasks in the legacy era.
    const patient = this.options.tasks && client.getProtocolEra() === 'modern';
    const all = patient
      ? { resetTimeoutOnProgress: true, ...options, onprogress: newsOnly(options?.onprogress) }
      : options;
    return client.callTool({ name, arguments: args }, all);
  }

  /**
   * Calls a tool on subscription: emits its progress, then its result, then completes. Unsubscribing cancels the call
   * on the server, or its task. The timeout restarts with each progress event, and with each poll of a task, whose
   * `statusMessage` is the `message` of a progress event.
   *
   * @param name the name of the tool
   * @param args its arguments
   * @param options the options of the official client, but `signal` and `onprogress`
   */
  callTool$(
    name: string,
    args: Record<string, unknown> = {},
    options: Omit<RequestOptions, 'signal' | 'onprogress'> = {},
  ): Observable<McpToolCallEvent> {
    return new Observable((subscriber) => {
      const controller = new AbortController();
      const { signal } = controller;
      const call = async (): Promise<void> => {
        const client = await this.client();
        if (signal.aborted) return;
        const onprogress = newsOnly((progress) => subscriber.next({ type: 'progress', ...progress }));
        const all: RequestOptions = { resetTimeoutOnProgress: true, ...options, signal, onprogress };
        const result = await client.callTool({ name, arguments: args }, all);
        subscriber.next({ type: 'result', result });
        subscriber.complete();
      };
      call().catch((error: unknown) => subscriber.error(error));
      return () => controller.abort('unsubscribed');
    });
  }

  /** Ends the session and the connection; the client cannot be used again. */
  close(): Promise<void> {
    return (this.#closing ??= this.#end());
  }

  /**
   * Closes the client before the app's own server waits for its connections: this client may hold one of them.
   * @internal
   */
  beforeApplicationShutdown(): Promise<void> {
    return this.close();
  }

  async #end(): Promise<void> {
    this.#transports$.complete();
    await Promise.all([this.#transport?.close(), this.#dropped]);
  }

  async #connect(): Promise<Client> {
    const { Client } = this.clientPackage;
    const { url, clientInfo = { name: this.name, version: '0.0.0' }, client: options, configure } = this.options;
    const client = new (namingTools(Client))(clientInfo, { jsonSchemaValidator: new OutputSchemas(), ...options });
    const transport = new StreamableClientTransport(url, this.#transportOptions());
    this.#transport = transport;
    this.#transports$.next(transport);
    try {
      configure?.(client);
      await client.connect(this.options.tasks ? new McpTaskTransport(transport, this.options.clock) : transport);
      if (this.#closing) throw this.#closed();
    } catch (error) {
      this.#connection = undefined;
      throw error;
    }
    transport.state$.subscribe({
      next: ({ is }) => is === 'lost' && this.#drop(transport, client),
      complete: () => this.#drop(transport, client),
    });
    return client;
  }

  /** Closes a lost connection; the next use opens another one. */
  #drop(transport: StreamableClientTransport, client: Client): void {
    if (this.#transport !== transport) return;
    this.#connection = this.#transport = undefined;
    // It is closed one turn later, so that running calls fail with their own reason first.
    this.#dropped = nextTurn().then(() => client.close());
  }

  /** Returns the options of the transport, with the credentials in their place. */
  #transportOptions(): StreamableClientTransportOptions {
    const { auth, url, ...all } = this.options;
    if (auth === undefined) return all;
    if (typeof auth === 'object') return { ...all, fetch: this.clientPackage.withOAuth(auth, url)(all.fetch) };
    const { headers } = all;
    const token = typeof auth === 'string' ? () => auth : auth;
    const others = typeof headers === 'function' ? headers : () => headers;
    return { ...all, headers: async () => ({ ...(await others()), authorization: `Bearer ${await token()}` }) };
  }

  #closed(): McpClientTransportError {
    const message = `The MCP client "${this.name}" is closed: the application is shutting down.`;
    return new McpClientTransportError('NOT_CONNECTED', message);
  }
}

/** Returns a callback that leaves out the progress events of polls without a new status message. */
function newsOnly(onprogress: RequestOptions['onprogress']): (progress: Progress) => void {
  return (progress: Progress & { _meta?: Record<string, unknown> }) => {
    if (progress._meta?.[POLLED_META_KEY] === undefined) onprogress?.(progress);
  };
}

/** These exports of the official client are used. */
export interface ClientPackage {
  readonly Client: typeof Client;
  readonly withOAuth: typeof withOAuth;
}

/** Thrown when the official client is not installed. @publicApi */
export class McpClientPackageError extends Error {
  override readonly name = 'McpClientPackageError';
  readonly code = 'CLIENT_PACKAGE_MISSING';
}

/**
 * Loads the official client on demand: the transport alone works with other clients too.
 *
 * @throws (rejects) McpClientPackageError when it is not installed
 */
export async function loadClientPackage(
  load: () => Promise<ClientPackage> = () => import('@modelcontextprotocol/client'),
): Promise<ClientPackage> {
  try {
    return await load();
  } catch (cause) {
    const { code } = cause as { code?: unknown };
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause;
    const message =
      'McpClientModule needs the official client, which is not installed: npm install @modelcontextprotocol/client';
    throw new McpClientPackageError(message, { cause });
  }
}
