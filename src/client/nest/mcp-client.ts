import type { CallToolResult, Client, Progress, RequestOptions } from '@modelcontextprotocol/client';
import type { BeforeApplicationShutdown } from '@nestjs/common';
import { Observable, ReplaySubject, switchMap } from 'rxjs';
import type { ClientTransportState, ReconnectEvent, RecoveryEvent } from '../client-state.js';
import { ClientTransportError } from '../client.errors.js';
import type { FetchLike, StreamableClientTransportOptions } from '../client.options.js';
import { StreamableClientTransport } from '../streamable-client-transport.js';
import type { ClientPackage } from './client-package.js';
import { mcpClientMessages } from './mcp-client.messages.js';
import type { McpClientOptions } from './mcp-client.options.js';

/** What comes of a tool call: progress, any number of times, then the result. @publicApi */
export type McpToolCallEvent =
  ({ readonly type: 'progress' } & Progress) | { readonly type: 'result'; readonly result: CallToolResult };

/**
 * # One MCP server, as a Nest app sees it
 *
 *     idle ──first use──▶ connecting ──▶ connected ──lost, closed by the server──▶ idle
 *                             │ failed ──▶ idle
 *     any ──close(), shutdown──▶ closed
 *
 * It holds the official `Client`, connected over a {@link StreamableClientTransport}, and replaces both when they are beyond
 * recovery: so it can be injected once and used for ever, while a `Client` is used and thrown away.
 *
 * Invariants: at most one connection at a time, and one attempt for all who wait; nothing is opened once it is closed.
 *
 * @publicApi
 */
export class McpClient implements BeforeApplicationShutdown {
  #link: Link = { is: 'idle' };
  readonly #transports$ = new ReplaySubject<StreamableClientTransport>(1);

  /** @internal */
  constructor(
    /** The key of the client in the option `clients`. */
    readonly name: string,
    private readonly options: McpClientOptions,
    private readonly load: () => Promise<ClientPackage>,
  ) {}

  /** The state of the present connection, and of each that follows; nothing before the first one. Completes when closed. */
  get state$(): Observable<ClientTransportState> {
    return this.#of((transport) => transport.state$);
  }
  /** @see StreamableClientTransport.reconnects$ */
  get reconnects$(): Observable<ReconnectEvent> {
    return this.#of((transport) => transport.reconnects$);
  }
  /** @see StreamableClientTransport.recoveries$ */
  get recoveries$(): Observable<RecoveryEvent> {
    return this.#of((transport) => transport.recoveries$);
  }

  /**
   * The official client, connected: the first call connects, and so does the first one after a connection that was lost.
   * Use it at once, and ask again the next time.
   *
   * @throws (rejects) what `Client.connect` throws, such as HttpUnauthorizedError; McpClientPackageError; NOT_CONNECTED when
   *   it is closed. The next call tries again.
   */
  client(): Promise<Client> {
    const link = this.#link;
    switch (link.is) {
      case 'closed':
        return Promise.reject(new ClientTransportError('NOT_CONNECTED', mcpClientMessages.closed(this.name)));
      case 'connected':
        return Promise.resolve(link.client);
      case 'connecting':
        return link.client;
      case 'idle': {
        const client = this.#connect();
        this.#link = { is: 'connecting', client };
        return client;
      }
    }
  }

  /**
   * Calls a tool.
   *
   * @param name of the tool
   * @param args its arguments
   * @param options of the official client: `signal`, `timeout` in milliseconds, `onprogress`, …
   * @returns the result; `isError` says that the tool has failed
   * @throws (rejects) what `client()` and `Client.callTool` throw
   */
  async callTool(name: string, args: Record<string, unknown> = {}, options?: RequestOptions): Promise<CallToolResult> {
    const client = await this.client();
    return client.callTool({ name, arguments: args }, options);
  }

  /**
   * Calls a tool when it is subscribed to: its progress as it comes, then its result, then the end. Unsubscribing cancels the
   * call on the server. The timeout begins anew with each progress.
   *
   * @param name of the tool
   * @param args its arguments
   * @param options of the official client, but `signal` and `onprogress`
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
        const onprogress = (progress: Progress): void => subscriber.next({ type: 'progress', ...progress });
        const all: RequestOptions = { resetTimeoutOnProgress: true, ...options, signal, onprogress };
        const result = await client.callTool({ name, arguments: args }, all);
        subscriber.next({ type: 'result', result });
        subscriber.complete();
      };
      call().catch((error: unknown) => subscriber.error(error));
      return () => controller.abort('unsubscribed');
    });
  }

  /** Ends the session and the connection, for good. */
  async close(): Promise<void> {
    const link = this.#link;
    if (link.is === 'closed') return link.done;
    const done = this.#end(link);
    this.#link = { is: 'closed', done };
    this.#transports$.complete();
    return done;
  }

  /** Called by Nest, before the app's own server waits for its connections to end: one of them may be ours. @internal */
  beforeApplicationShutdown(): Promise<void> {
    return this.close();
  }

  async #end(link: Link): Promise<void> {
    if (link.is === 'connecting') await this.#transport?.close();
    if (link.is === 'connected') await link.client.close();
    await this.#dropped;
  }

  /** Lost connections that are still being closed. */
  #dropped: Promise<unknown> = Promise.resolve();
  /** Of the attempt that is under way. */
  #transport: StreamableClientTransport | undefined;

  async #connect(): Promise<Client> {
    try {
      const { Client, withOAuth } = await this.load();
      this.#assertOpen();
      const { url, clientInfo = { name: this.name, version: '0.0.0' }, client: options, configure } = this.options;
      const client = new Client(clientInfo, options);
      configure?.(client);
      const transport = new StreamableClientTransport(url, transportOptions(this.options, withOAuth));
      this.#transport = transport;
      this.#transports$.next(transport);
      await client.connect(transport);
      this.#assertOpen();
      this.#link = { is: 'connected', client };
      transport.state$.subscribe({
        next: ({ is }) => is === 'lost' && this.#drop(client),
        complete: () => this.#drop(client),
      });
      return client;
    } catch (error) {
      if (this.#link.is !== 'closed') this.#link = { is: 'idle' };
      throw error;
    }
  }

  /** @throws NOT_CONNECTED: it was closed while it was connecting */
  #assertOpen(): void {
    if (this.#link.is === 'closed')
      throw new ClientTransportError('NOT_CONNECTED', mcpClientMessages.closed(this.name));
  }

  /** The connection is beyond recovery: the next use begins another one. */
  #drop(client: Client): void {
    if (this.#link.is !== 'connected' || this.#link.client !== client) return;
    this.#link = { is: 'idle' };
    // Calls that are under way fail for their own reason first.
    this.#dropped = Promise.all([this.#dropped, nextTurn().then(() => client.close())]);
  }

  #of<T>(what: (transport: StreamableClientTransport) => Observable<T>): Observable<T> {
    return this.#transports$.pipe(switchMap(what));
  }
}

type Link =
  | { readonly is: 'idle' }
  | { readonly is: 'connecting'; readonly client: Promise<Client> }
  | { readonly is: 'connected'; readonly client: Client }
  | { readonly is: 'closed'; readonly done: Promise<void> };

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** The options of the transport, with the credentials in their place. */
function transportOptions(
  options: McpClientOptions,
  withOAuth: ClientPackage['withOAuth'],
): StreamableClientTransportOptions {
  const { auth, url, headers = {}, recover = true, ...rest } = options;
  const all: StreamableClientTransportOptions = { ...rest, headers, recover };
  if (auth === undefined) return all;
  if (typeof auth === 'object') {
    const plain: FetchLike = options.fetch ?? ((input, init) => globalThis.fetch(input, init));
    return { ...all, fetch: withOAuth(auth, new URL(url))(plain) };
  }
  const token = typeof auth === 'string' ? () => auth : auth;
  const others = typeof headers === 'function' ? headers : () => headers;
  return { ...all, headers: async () => ({ ...(await others()), authorization: `Bearer ${await token()}` }) };
}
