import type { Client, ClientOptions } from '@modelcontextprotocol/client';
import type { McpEndpointHost } from 'nestjs-mcp-streamable';
import { McpClient } from 'nestjs-mcp-streamable/client';
import { askedBy } from './remote-call.js';
import { type GatewayUser, type Kind, KINDS, type Listed, type ResolvedRemote } from './remote.options.js';

export type Clock = McpEndpointHost['clock'];
export type Entry = ReturnType<McpEndpointHost['entryOf']>;
export type Entries = ReadonlyMap<string, Entry>;

interface KeptList {
  entries: Entries;
  until: number;
  asked?: Promise<Entries>;
}

/** What a link does not decide itself. */
interface LinkOwner {
  entriesOf(kind: Kind, listed: readonly Listed[Kind][]): Entries;
  listChanged(kind: Kind, link: RemoteLink): void;
  answered(link: RemoteLink): void;
  failed(link: RemoteLink, error: unknown): void;
}

/**
 * One remote server for one user, or for all users: its client, and what it lists.
 *
 * A list is kept until the server says that it has changed, for at most `listTtlMs`. Without an answer the last list stays, and
 * the server is asked again after `retryMs`.
 */
export class RemoteLink {
  readonly #client: Promise<McpClient>;
  readonly #lists = new Map<Kind, KeptList>(KINDS.map((kind) => [kind, { entries: new Map(), until: 0 }]));
  #retry: object | undefined;
  #connections = 0;
  #isAway = false;
  #running = 0;
  usedAt: number;

  constructor(
    readonly remote: ResolvedRemote,
    /** Its last call is used for a token. `undefined`: it is for all users. */
    public user: GatewayUser | undefined,
    private readonly owner: LinkOwner,
    private readonly clock: Clock,
  ) {
    this.usedAt = clock.now();
    const { name, url, token, client } = remote;
    const drop = (...kinds: Kind[]) => ({ autoRefresh: false, debounceMs: 0, onChanged: () => this.#drop(kinds) });
    const options: ClientOptions = {
      capabilities: { elicitation: { form: {}, url: {} } },
      versionNegotiation: { mode: 'auto' },
      listChanged: { tools: drop('tool'), resources: drop('resource', 'template'), prompts: drop('prompt') },
      ...client?.client,
    };
    this.#client = McpClient.create(name, {
      url,
      clock,
      reconnect: { firstDelayMs: 200, maxAttempts: 3 },
      ...client,
      ...(token && { auth: async () => (await token(this.user!)) ?? '' }),
      client: options,
      configure: (connecting) => {
        connecting.setRequestHandler('elicitation/create', askedBy);
        client?.configure?.(connecting);
        // What has changed since the connection was lost, nobody has said.
        if (this.#connections++ > 0) this.#drop(KINDS);
      },
    });
    this.#client.then(
      ({ recoveries$ }) => recoveries$.subscribe(() => this.#drop(KINDS)),
      () => {},
    );
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.usedAt + this.remote.idleMs < this.clock.now();
  }

  /** Returns what the server lists; what it has listed the last time while it is away. */
  entries(kind: Kind): Entries | Promise<Entries> {
    const kept = this.#lists.get(kind)!;
    if (this.clock.now() < kept.until) return kept.entries;
    return (kept.asked ??= this.#ask(kind, kept));
  }

  /** Does something with the connected client. What fails by the connection says that the server is away. */
  async use<T>(action: (client: Client) => Promise<T>): Promise<T> {
    this.usedAt = this.clock.now();
    this.#running++;
    try {
      return await action(await (await this.#client).client());
    } finally {
      this.#running--;
    }
  }

  async close(): Promise<void> {
    this.clock.clear(this.#retry);
    await this.#client.then((client) => client.close()).catch(() => {});
  }

  async #ask(kind: Kind, kept: KeptList): Promise<Entries> {
    const { listTimeoutMs, listTtlMs, retryMs } = this.remote;
    let timer: object | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
        const error = new Error(`It did not list its handlers within ${listTimeoutMs} ms.`);
        timer = this.clock.setTimeout(() => reject(error), listTimeoutMs);
      });
      const listed = this.use<Listed[Kind][]>(LISTS[kind]);
      kept.entries = this.owner.entriesOf(kind, await Promise.race([listed, late]));
      kept.until = this.clock.now() + listTtlMs;
      this.owner.answered(this);
      if (this.#isAway) this.#drop(KINDS.filter((each) => each !== kind));
      if (this.#isAway) this.owner.listChanged(kind, this);
      this.#isAway = false;
    } catch (error) {
      kept.until = this.clock.now() + retryMs;
      this.owner.failed(this, error);
      this.#isAway = true;
      this.#retry ??= this.clock.setTimeout(() => this.#tryAgain(), retryMs);
    } finally {
      this.clock.clear(timer);
      delete kept.asked;
    }
    return kept.entries;
  }

  /** Asks a server that was away: if it answers, clients learn that its lists are there. */
  #tryAgain(): void {
    this.#retry = undefined;
    if (!this.isIdle) void this.entries('tool');
  }

  #drop(kinds: readonly Kind[]): void {
    for (const kind of kinds) {
      this.#lists.set(kind, { entries: this.#lists.get(kind)!.entries, until: 0 });
      this.owner.listChanged(kind, this);
    }
  }
}

const FRESH = { cacheMode: 'refresh' } as const;

const LISTS: { readonly [K in Kind]: (client: Client) => Promise<Listed[K][]> } = {
  tool: async (client) => (await client.listTools(undefined, FRESH)).tools,
  resource: async (client) => (await client.listResources(undefined, FRESH)).resources,
  template: async (client) => (await client.listResourceTemplates(undefined, FRESH)).resourceTemplates,
  prompt: async (client) => (await client.listPrompts(undefined, FRESH)).prompts,
};
