import type { Client } from '@modelcontextprotocol/client';
import { McpClient } from 'nestjs-mcp-streamable/client';
import { type Kind, listedBy } from './remote-handlers.js';
import type { Lists, RemoteSource } from './remote-source.js';
import type { GatewayUser } from './remote.options.js';

/**
 * One remote server for one user, or for all users: its client, and what it lists.
 *
 * Lists are kept until the server says that one has changed, for at most `listTtlMs`. Without an answer the last ones stay, and the
 * server is asked again after `retryMs`.
 */
export class RemoteSession {
  readonly #client: Promise<McpClient>;
  #lists: Promise<Lists> = Promise.resolve({});
  #keptUntil = 0;
  /** Counts what makes an answer that was asked for before too old. */
  #turn = 0;
  #connections = 0;
  #retry: object | undefined;
  #isAway = false;
  #running = 0;
  #usedAt: number;

  constructor(
    private readonly source: RemoteSource,
    /** Its last call is used for a token. `undefined`: the session is for all users. */
    public user: GatewayUser | undefined,
  ) {
    const { remote, clock, relay } = source;
    const { name, url, token, client } = remote;
    this.#usedAt = clock.now();
    const changed = (...kinds: Kind[]) => ({ autoRefresh: false, debounceMs: 0, onChanged: () => this.#drop(kinds) });
    this.#client = McpClient.create(name, {
      url,
      clock,
      reconnect: { firstDelayMs: 200, maxAttempts: 3 },
      ...client,
      ...(token && { auth: async () => (await token(this.user!)) ?? '' }),
      client: {
        capabilities: { elicitation: { form: {}, url: {} } },
        versionNegotiation: { mode: 'auto' },
        listChanged: { tools: changed('tool'), resources: changed('resource', 'template'), prompts: changed('prompt') },
        ...client?.client,
      },
      configure: (connecting) => {
        relay.configure(connecting);
        client?.configure?.(connecting);
        // What has changed since the connection was lost, nobody has said.
        if (this.#connections++ > 0) this.#drop();
      },
    });
    const follow = ({ recoveries$ }: McpClient) => void recoveries$.subscribe(() => this.#drop());
    this.#client.then(follow, () => {});
  }

  get isIdle(): boolean {
    return this.#running === 0 && this.#usedAt + this.source.remote.idleMs < this.source.clock.now();
  }

  /** Resolves with what the server lists; with what it has listed the last time while it is away. */
  lists(): Promise<Lists> {
    if (this.#keptUntil <= this.source.clock.now()) {
      this.#keptUntil = Infinity;
      this.#lists = this.#ask(this.#lists, ++this.#turn);
    }
    return this.#lists;
  }

  /** Does something with the connected client. */
  async use<T>(action: (client: Client) => Promise<T>): Promise<T> {
    this.#running++;
    try {
      return await action(await (await this.#client).client());
    } finally {
      this.#running--;
      this.#usedAt = this.source.clock.now();
    }
  }

  async close(): Promise<void> {
    this.source.clock.clear(this.#retry);
    await this.#client.then((client) => client.close()).catch(() => {});
  }

  async #ask(last: Promise<Lists>, turn: number): Promise<Lists> {
    const { source } = this;
    const { remote, clock } = source;
    const keep = (ms: number) => void (turn === this.#turn && (this.#keptUntil = clock.now() + ms));
    let timer: object | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
        const error = new Error(`It did not list its handlers within ${remote.listTimeoutMs} ms.`);
        timer = clock.setTimeout(() => reject(error), remote.listTimeoutMs);
      });
      const lists = source.listsOf(await Promise.race([this.use(listedBy), late]));
      keep(remote.listTtlMs);
      source.answered(this);
      if (this.#isAway) source.announce(this);
      this.#isAway = false;
      return lists;
    } catch (error) {
      keep(remote.retryMs);
      source.failed(this, error);
      this.#isAway = true;
      clock.clear(this.#retry);
      this.#retry = clock.setTimeout(() => void (this.isIdle || this.lists()), remote.retryMs);
      return await last;
    } finally {
      clock.clear(timer);
    }
  }

  #drop(kinds?: readonly Kind[]): void {
    this.#turn++;
    this.#keptUntil = 0;
    this.source.announce(this, kinds);
  }
}
