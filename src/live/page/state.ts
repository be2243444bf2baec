/* What the server has said: the updates of src/live/live-state.ts, put together. */

export interface SessionRow {
  readonly key: string;
  readonly id: string;
  readonly client: string;
  readonly version: string;
  readonly principal: string | null;
  readonly revision: string;
  /** Whether the session is live on the node of this page. */
  readonly here: boolean;
  readonly since: number;
  readonly seen: number;
  readonly calls: number;
  readonly streams: number;
  readonly readers: number;
  readonly log: number;
}

export interface CallRow {
  readonly key: string;
  readonly method: string;
  readonly name: string | null;
  readonly session: string | null;
  readonly client: string;
  readonly version: string;
  readonly principal: string | null;
  readonly revision: string;
  readonly since: number;
  readonly cancellable: boolean;
}

export interface ToolRow {
  readonly key: string;
  readonly name: string;
  readonly kind: 'tool' | 'method';
  readonly title: string;
  /** The beginning of its description. */
  readonly about: string;
  /** Names what lists it for each caller; empty: it is in the list of all callers. */
  readonly of: string;
  readonly calls: number;
  readonly errors: number;
  readonly p50: number;
  readonly p95: number;
  readonly spark: readonly number[];
  /** Actions name the tool by it; `null`: it cannot be switched. */
  readonly id: string | null;
  /** The reason why the tool is switched off; `null`: it is on. */
  readonly off: string | null;
}

/** A resource, a template or a prompt. */
export interface OfferRow {
  readonly key: string;
  readonly kind: 'resource' | 'template' | 'prompt';
  /** The URI of a resource or template. */
  readonly name: string;
  readonly title: string;
  readonly about: string;
}

export interface EventRow {
  readonly n: number;
  readonly at: number;
  readonly endpoint: number;
  readonly tone: 'ok' | 'note' | 'bad';
  readonly what: string;
  readonly outcome: string;
  /** Why it was refused. */
  readonly reason?: string;
  readonly who: string;
  readonly ms?: number;
  /** The key of the row of its tool. */
  readonly tool?: string;
  /** The key of the record of the call. */
  readonly call?: string;
}

export type Check = 'up' | 'down' | undefined;

export interface Facts {
  readonly name: string;
  readonly path: string;
  /** The title of the server; empty: it has none. */
  readonly title: string;
  /** Its name and version. */
  readonly server: string;
  readonly node: string;
  readonly nodes: readonly string[];
  readonly live: number;
  readonly calls: number;
  readonly questions: number;
  readonly streams: number;
  readonly readers: number;
  readonly listens: number;
  readonly tasks: number;
  readonly sessions: number;
  readonly shared: boolean;
  readonly logged?: number;
  readonly draining: boolean;
  readonly sessionStore: Check;
  readonly eventStore: Check;
  readonly messageBus: Check;
  /** Both are absent while the backend has nothing to say. */
  readonly backend?: Check;
  readonly warnings?: readonly string[];
  readonly rate: readonly number[];
  readonly failures: readonly number[];
}

export interface Rows {
  sessions: SessionRow;
  calls: CallRow;
  tools: ToolRow;
  offers: OfferRow;
}
type Table = keyof Rows;
const TABLES: readonly Table[] = ['sessions', 'calls', 'tools', 'offers'];

export type Endpoint = { facts: Facts } & { [Name in Table]: Map<string, Rows[Name]> };

interface TableUpdate {
  readonly set?: readonly { readonly key: string }[];
  readonly gone?: readonly string[];
}

export interface Update {
  readonly type: 'snapshot' | 'delta';
  readonly at: number;
  readonly endpoints: readonly {
    readonly index?: number;
    readonly facts?: Partial<Facts>;
    readonly tables?: Partial<Record<Table, TableUpdate>>;
  }[];
  readonly events: readonly EventRow[];
}

const KEPT_EVENTS = 200;

export class LiveState {
  readonly endpoints: Endpoint[] = [];
  events: readonly EventRow[] = [];
  /** Milliseconds by which the clock here is ahead of the server's. */
  #skew = 0;

  /** @param now by the clock here */
  apply(update: Update, now: number): void {
    this.#skew = now - update.at;
    if (update.type === 'snapshot') {
      this.endpoints.length = 0;
      this.events = [];
    }
    for (const [position, { index = position, facts, tables = {} }] of update.endpoints.entries()) {
      const endpoint = (this.endpoints[index] ??= blank());
      endpoint.facts = { ...endpoint.facts, ...facts };
      for (const name of TABLES) merge(endpoint[name], tables[name]);
    }
    this.events = [...this.events, ...update.events].slice(-KEPT_EVENTS);
  }

  /** Returns the time here of a time of the server. */
  here(at: number): number {
    return at + this.#skew;
  }

  /** Returns the milliseconds since a time of the server. */
  since(at: number): number {
    return Date.now() - this.here(at);
  }
}

function merge(rows: Map<string, { readonly key: string }>, { set = [], gone = [] }: TableUpdate = {}): void {
  for (const row of set) rows.set(row.key, { ...rows.get(row.key), ...row });
  for (const key of gone) rows.delete(key);
}

function blank(): Endpoint {
  return { facts: {} as Facts, sessions: new Map(), calls: new Map(), tools: new Map(), offers: new Map() };
}
