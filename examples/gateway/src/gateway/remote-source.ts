import { type Client, ProtocolError as RemoteError } from '@modelcontextprotocol/client';
import { ProtocolError } from '@modelcontextprotocol/server';
import { HttpException, Logger } from '@nestjs/common';
import { type McpCall, type McpContext, type McpEndpointHost, toolResult } from 'nestjs-mcp-streamable';
import { McpHttpUnauthorizedError } from 'nestjs-mcp-streamable/client';
import { isQuestions, type RemoteCalls, type Round } from './remote-call.js';
import { type Entries, type Entry, RemoteLink } from './remote-link.js';
import type { Kind, Listed, ResolvedRemote } from './remote.options.js';

type McpHandlerSource = Parameters<McpEndpointHost['serve']>[0];
type Send = (client: Client, args: Record<string, unknown>, round: Round) => Promise<object>;

/** So many handlers of a server are known, of all users: equal ones are one, with one limit of `maxConcurrent`. */
const MAX_KNOWN = 10_000;

/** The handlers of one remote server. Those of a user are found by its principal in each call, never by what was listed. */
export class RemoteSource implements McpHandlerSource {
  readonly #links = new Map<string, RemoteLink>();
  readonly #known = new Map<string, Entry>();
  /** Whose failure the log has said; `undefined`: that the server is away. */
  readonly #logged = new Set<RemoteLink | undefined>();
  readonly #log = new Logger('Gateway');
  readonly summary: string;

  constructor(
    private readonly remote: ResolvedRemote,
    private readonly endpoint: McpEndpointHost,
    private readonly calls: RemoteCalls,
  ) {
    this.summary = `what ${remote.name} at ${remote.url} lists`;
  }

  perCaller(): boolean {
    return this.remote.token !== undefined;
  }

  async find(key: string, call: McpCall, kind: Kind): Promise<Entry | undefined> {
    const link = await this.#linkOf(call);
    const found = (await link?.entries(kind))?.get(key);
    if (found || kind !== 'resource') return found;
    const templates = await link?.entries('template');
    return [...(templates?.values() ?? [])].find(({ template }) => template!.written(key));
  }

  async page(kind: Kind, call: McpCall, after = '', size: number) {
    const entries = await (await this.#linkOf(call))?.entries(kind);
    const rest = [...(entries?.values() ?? [])].filter(({ key }) => key > after);
    const items = rest.slice(0, size).map((entry) => ({ place: entry.key, entry }));
    return { items, next: rest.length > size ? (items.at(-1)?.place ?? after) : undefined };
  }

  async close(): Promise<void> {
    await Promise.all(Array.from(this.#links.values(), (link) => link.close()));
  }

  /** Makes the handlers of a list, in the order of their keys. */
  entriesOf<K extends Kind>(kind: K, listed: readonly Listed[K][]): Entries {
    const { maxHandlers, name } = this.remote;
    if (listed.length > maxHandlers)
      this.#log.warn(`${name} lists ${listed.length} of the kind ${kind}; the first ${maxHandlers} are served.`);
    const entries = listed.slice(0, maxHandlers).flatMap((each) => {
      try {
        return [this.#entryOf(kind, each)];
      } catch (error) {
        this.#log.warn(`A ${kind} of ${name} is left out. ${(error as Error).message}`);
        return [];
      }
    });
    return new Map(entries.toSorted((one, other) => (one.key < other.key ? -1 : 1)).map((entry) => [entry.key, entry]));
  }

  listChanged(kind: Kind, { user }: RemoteLink): void {
    this.endpoint.changed(kind, user && new Set([user.principal]));
  }

  answered(link: RemoteLink): void {
    if (this.#logged.delete(undefined)) this.#log.log(`${this.remote.name} is there again.`);
    this.#logged.delete(link);
  }

  /** Says once that the server is away, or that it refuses one user. */
  failed(link: RemoteLink, error: unknown): void {
    const who = error instanceof McpHttpUnauthorizedError ? link : undefined;
    if (this.#logged.has(who)) return;
    this.#logged.add(who);
    this.#log.warn(`${this.remote.name} is away${who?.user ? ` for ${who.user.principal}` : ''}: ${String(error)}`);
  }

  async #linkOf({ principal, request }: Pick<McpCall, 'principal' | 'request'>): Promise<RemoteLink | undefined> {
    const { token } = this.remote;
    const user = token && principal !== undefined ? { principal, request } : undefined;
    if (token && !(user && (await token(user)))) return undefined;
    const key = user?.principal ?? '';
    let link = this.#links.get(key);
    if (!link) {
      for (const [other, each] of this.#links) if (each.isIdle && this.#links.delete(other)) void each.close();
      this.#links.set(key, (link = new RemoteLink(this.remote, user, this, this.endpoint.clock)));
    }
    link.user = user;
    return link;
  }

  #entryOf<K extends Kind>(kind: K, listed: Listed[K]): Entry {
    const text = JSON.stringify([kind, listed]);
    let entry = this.#known.get(text);
    if (!entry) {
      const { send, ...registration } = REGISTRATIONS[kind](listed, this.remote);
      const handler = (args: Record<string, unknown>, ctx: McpContext) => this.#call(send, args, ctx);
      entry = this.endpoint.entryOf(kind, { ...registration, handler }, this.remote.name);
      if (this.#known.size >= MAX_KNOWN) this.#known.clear();
      this.#known.set(text, entry);
    }
    return entry;
  }

  async #call(send: Send, args: Record<string, unknown>, ctx: McpContext): Promise<object> {
    const { name } = this.remote;
    const link = await this.#linkOf(ctx.mcpCall);
    if (!link) throw new HttpException(`You are not connected with ${name} any more.`, 424);
    try {
      return await this.calls.run(ctx, (round) => link.use((client) => send(client, args, round)));
    } catch (error) {
      if (error instanceof RemoteError) throw new ProtocolError(error.code, error.message, error.data);
      if (error instanceof HttpException || ctx.signal.aborted) throw error;
      this.failed(link, error);
      if (error instanceof McpHttpUnauthorizedError)
        throw new HttpException(`${name} does not accept your credentials. Connect with it again.`, 424);
      throw new HttpException(`The server ${name} is away: ${(error as Error).message} Try again later.`, 424);
    }
  }
}

/** Lets a value pass as it is: the remote server checks it. */
function unchecked(schema: object) {
  const jsonSchema = () => ({ type: 'object', ...schema });
  const validate = (value: unknown) => ({ value });
  return {
    '~standard': { version: 1, vendor: 'remote', validate, jsonSchema: { input: jsonSchema, output: () => schema } },
  };
}

/** What a handler is registered with, and what its call sends. */
const REGISTRATIONS: { readonly [K in Kind]: (listed: Listed[K], remote: ResolvedRemote) => { send: Send } } = {
  tool: (tool, { prefix, tool: options }) => ({
    ...tool,
    name: prefix + tool.name,
    inputSchema: unchecked(tool.inputSchema),
    outputSchema: tool.outputSchema && unchecked(tool.outputSchema),
    ...options?.(tool),
    send: async (client, args, { params, options: sent }) => {
      const result = await client.callTool({ name: tool.name, arguments: args, ...params }, sent);
      return isQuestions(result) ? result : toolResult(result);
    },
  }),
  resource: (resource) => ({ ...resource, send: readOf(resource.uri) }),
  template: (template) => ({ ...template, send: (client, args, round) => readOf(args['uri'])(client, args, round) }),
  prompt: (prompt, { prefix }) => ({
    ...prompt,
    name: prefix + prompt.name,
    send: (client, args, { params, options }) =>
      client.getPrompt({ name: prompt.name, arguments: args as Record<string, string>, ...params }, options),
  }),
};

const readOf =
  (uri: unknown): Send =>
  (client, _args, { params, options }) =>
    client.readResource({ uri: uri as string, ...params }, { cacheMode: 'refresh', ...options });
