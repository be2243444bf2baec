import { send, type RawResponse, type SseStream } from '../support/http.js';

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
type Fields = Record<string, any>;

interface SeenEndpoint {
  facts: Fields;
  sessions: Map<string, Fields>;
  calls: Map<string, Fields>;
  tools: Map<string, Fields>;
  offers: Map<string, Fields>;
}

/** Follows the stream of a live page, as its script does. */
export class LiveReader {
  readonly endpoints: SeenEndpoint[] = [];
  readonly events: Fields[] = [];
  #read = 0;

  private constructor(
    readonly page: string,
    readonly stream: SseStream,
  ) {}

  static async open(page: string, headers: Record<string, string> = {}): Promise<LiveReader> {
    const response = await send(`${page}/events`, { method: 'GET', headers });
    if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
    return new LiveReader(page, await response.sse().count(1)).apply();
  }

  /** Reads until something can be seen. */
  async until(condition: (reader: this) => unknown): Promise<this> {
    await this.stream.until(() => Boolean(condition(this.apply())));
    return this;
  }

  get first(): SeenEndpoint {
    return this.endpoints[0]!;
  }

  /** The only row of a table. */
  row(table: 'sessions' | 'calls'): Fields {
    const rows = [...this.first[table].values()];
    if (rows.length !== 1) throw new Error(`${rows.length} ${table}`);
    return rows[0]!;
  }

  close(): void {
    this.stream.destroy();
  }

  apply(): this {
    for (const { message } of this.stream.events.slice(this.#read)) {
      if (message.type === 'snapshot') this.endpoints.length = this.events.length = 0;
      for (const [position, { index = position, facts, tables = {} }] of message.endpoints.entries()) {
        const endpoint = (this.endpoints[index] ??= {
          facts: {},
          sessions: new Map(),
          calls: new Map(),
          tools: new Map(),
          offers: new Map(),
        });
        Object.assign(endpoint.facts, facts);
        for (const name of ['sessions', 'calls', 'tools', 'offers'] as const) {
          const { set = [], gone = [] } = tables[name] ?? {};
          for (const row of set) endpoint[name].set(row.key, { ...endpoint[name].get(row.key), ...row });
          for (const key of gone) endpoint[name].delete(key);
        }
      }
      this.events.push(...message.events);
    }
    this.#read = this.stream.events.length;
    return this;
  }
}

/** As the page sends it; `undefined` leaves a header out. */
export async function act(
  page: string,
  path: string,
  headers: Record<string, string | undefined> = {},
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
): Promise<{ status: number; body: any; response: RawResponse }> {
  const all = { origin: new URL(page).origin, 'mcp-live-action': '1', ...headers };
  const given = Object.fromEntries(Object.entries(all).filter(([, value]) => value !== undefined));
  const response = await send(`${page}/${path}`, { headers: given });
  return { status: response.status, body: await response.json(), response };
}
