import { ProtocolError as RemoteError } from '@modelcontextprotocol/client';
import { ProtocolError } from '@modelcontextprotocol/server';
import { HttpException, Logger } from '@nestjs/common';
import type { McpCall, McpContext, McpEndpointHost } from 'nestjs-mcp-streamable';
import { type McpCallRelay, McpHttpUnauthorizedError } from 'nestjs-mcp-streamable/client';
import { type Kind, type Listed, REGISTRATIONS, type Send } from './remote-handlers.js';
import { RemoteSession } from './remote-session.js';
import { DEFAULTS, type RemoteOptions } from './remote.options.js';

type Entry = ReturnType<McpEndpointHost['entryOf']>;
type Source = Parameters<McpEndpointHost['serve']>[0];
/** The handlers of each kind by key, in the order of their keys. */
export type Lists = { readonly [K in Kind]?: ReadonlyMap<string, Entry> };

const KINDS: readonly Kind[] = ['tool', 'resource', 'template', 'prompt'];
/** So many handlers of a server are known, of all users: equal ones are one, with one limit of `maxConcurrent`. */
const MAX_KNOWN = 10_000;
const log = new Logger('Gateway');

/** The handlers of one remote server. Those of a user are found by its principal in each call, never by what was listed. */
export class RemoteSource implements Source {
  readonly #sessions = new Map<string, RemoteSession>();
  readonly #known = new Map<string, Entry>();
  /** Whose failure the log has said; `undefined`: that the server is away. */
  readonly #logged = new Set<RemoteSession | undefined>();
  readonly remote;
  readonly clock;
  readonly summary: string;

  constructor(
    options: RemoteOptions,
    private readonly endpoint: McpEndpointHost,
    readonly relay: McpCallRelay,
  ) {
    this.remote = { prefix: `${options.name}_`, ...DEFAULTS, ...options };
    this.clock = endpoint.clock;
    this.summary = `what ${options.name} at ${options.url} lists`;
  }

  perCaller(): boolean {
    return this.remote.token !== undefined;
  }

  async find(key: string, call: McpCall, kind: Kind): Promise<Entry | undefined> {
    const lists = await (await this.#sessionOf(call))?.lists();
    const found = lists?.[kind]?.get(key);
    if (found || kind !== 'resource') return found;
    return [...(lists?.template?.values() ?? [])].find(({ template }) => template!.written(key));
  }

  async page(kind: Kind, call: McpCall, after = '', size: number) {
    const lists = await (await this.#sessionOf(call))?.lists();
    const rest = [...(lists?.[kind]?.values() ?? [])].filter(({ key }) => key > after);
    const items = rest.slice(0, size).map((entry) => ({ place: entry.key, entry }));
    return { items, next: rest.length > size ? (items.at(-1)?.place ?? after) : undefined };
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#sessions.values(), (session) => session.close()));
  }

  /** Makes the handlers that a server has listed. */
  listsOf(listed: Listed): Lists {
    return Object.fromEntries(KINDS.map((kind) => [kind, this.#entriesOf(kind, listed[kind])]));
  }

  /** Tells the user of a session, or all of them, that lists have changed. */
  announce({ user }: RemoteSession, kinds = KINDS): void {
    for (const kind of kinds) this.endpoint.changed(kind, user && new Set([user.principal]));
  }

  answered(session: RemoteSession): void {
    if (this.#logged.delete(undefined)) log.log(`${this.remote.name} is there again.`);
    this.#logged.delete(session);
  }

  /** Says once that the server is away, or that it refuses one user. */
  failed(session: RemoteSession, error: unknown): void {
    const who = error instanceof McpHttpUnauthorizedError ? session : undefined;
    if (this.#logged.has(who)) return;
    this.#logged.add(who);
    log.warn(`${this.remote.name} is away${who?.user ? ` for ${who.user.principal}` : ''}: ${String(error)}`);
  }

  async #sessionOf({ principal, request }: Pick<McpCall, 'principal' | 'request'>): Promise<RemoteSession | undefined> {
    const { token } = this.remote;
    const user = token && principal !== undefined ? { principal, request } : undefined;
    if (token && !(user && (await token(user)))) return undefined;
    const key = user?.principal ?? '';
    const session = this.#sessions.get(key) ?? new RemoteSession(this, user);
    session.user = user;
    for (const [other, each] of this.#sessions) if (each.isIdle && this.#sessions.delete(other)) void each.close();
    this.#sessions.set(key, session);
    return session;
  }

  #entriesOf<K extends Kind>(kind: K, listed: Listed[K]): ReadonlyMap<string, Entry> {
    const { maxHandlers, name } = this.remote;
    if (listed.length > maxHandlers)
      log.warn(`${name} lists ${listed.length} of the kind ${kind}; the first ${maxHandlers} are served.`);
    const entries = new Map<string, Entry>();
    for (const each of listed.slice(0, maxHandlers)) {
      try {
        const entry = this.#entryOf(kind, each);
        entries.set(entry.key, entry);
      } catch (error) {
        log.warn(`A ${kind} of ${name} is left out. ${(error as Error).message}`);
      }
    }
    return new Map([...entries].toSorted(([one], [other]) => (one < other ? -1 : 1)));
  }

  #entryOf<K extends Kind>(kind: K, listed: Listed[K][number]): Entry {
    const text = JSON.stringify([kind, listed]);
    const { send, ...registration } = REGISTRATIONS[kind](listed, this.remote);
    const handler = (args: Record<string, unknown>, ctx: McpContext) => this.#call(send, args, ctx);
    const entry = this.#known.get(text) ?? this.endpoint.entryOf(kind, { ...registration, handler }, this.remote.name);
    if (this.#known.size >= MAX_KNOWN) this.#known.clear();
    this.#known.set(text, entry);
    return entry;
  }

  async #call(send: Send, args: Record<string, unknown>, ctx: McpContext): Promise<object> {
    const { name } = this.remote;
    const session = await this.#sessionOf(ctx.mcpCall);
    if (!session) throw new HttpException(`You are not connected with ${name} any more.`, 424);
    try {
      return await this.relay.call(ctx, (...again) => session.use((client) => send(client, args, ...again)));
    } catch (error) {
      if (error instanceof RemoteError) throw new ProtocolError(error.code, error.message, error.data);
      if (error instanceof HttpException || ctx.signal.aborted) throw error;
      this.failed(session, error);
      if (error instanceof McpHttpUnauthorizedError)
        throw new HttpException(`${name} does not accept your credentials. Connect with it again.`, 424);
      throw new HttpException(`The server ${name} is away: ${(error as Error).message} Try again later.`, 424);
    }
  }
}
