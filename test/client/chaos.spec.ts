import { Client } from '@modelcontextprotocol/client';
import { StreamableClientTransport, type StreamableClientTransportOptions } from 'nestjs-mcp-streamable/client';
import { afterEach, describe, expect, it } from 'vitest';
import { LONG, share, seededRandom } from '../support/share.js';
import { type Fault, Proxy } from '../support/proxy.js';
import { MODERN_SERVERS, type RunningServer, SESSION_SERVERS } from './servers.js';

const AT_A_TIME = 25;
const STEPS = 4;
const CALLS = share(1_000, process.env['CHAOS_CALLS']);

/** One request in five fails, one way or another; DELETE never. */
function chaos(seed: number, kinds: readonly Fault[]): (method: string) => Fault {
  const random = seededRandom(seed);
  const number = (below: number): number => Math.floor(random() * below);
  return (method) => {
    if (method === 'DELETE' || number(5) !== 0) return { is: 'none' };
    const fault = kinds[number(kinds.length)]!;
    if (fault.is === 'cut') return { ...fault, afterBytes: number(fault.afterBytes) };
    // Where there is a cursor already: a response that cannot be resumed is waited for.
    if (fault.is === 'hang') return { ...fault, afterBytes: 60 + number(fault.afterBytes) };
    return fault;
  };
}

const FAULTS: readonly Fault[] = [
  { is: 'page', status: 502 },
  { is: 'page', status: 503 },
  { is: 'page', status: 504 },
  { is: 'lost', status: 502 },
  { is: 'lost', status: 504 },
  { is: 'reset' },
  { is: 'cut', afterBytes: 900 },
  { is: 'cut', afterBytes: 200 },
  { is: 'slow', ms: 5 },
];
/** What only a client that can come back survives. */
const RESUMABLE: readonly Fault[] = [...FAULTS, { is: 'hang', afterBytes: 500 }, { is: 'idle', ms: 20 }];

/** Real time, shared with whatever else this machine does. */
const PATIENCE_MS = 60_000;

const OPTIONS: StreamableClientTransportOptions = {
  reconnect: { firstDelayMs: 2, maxDelayMs: 50, maxAttempts: 30 },
  silenceMs: 250,
  openTimeoutMs: 2_000,
};

/** A client that counts what is handed over. */
class Caller {
  readonly answers = new Map<number | string, number>();
  readonly retried = new Set<number | string>();
  reconnects = 0;
  readonly results: string[] = [];
  readonly failures: unknown[] = [];
  readonly client: Client;
  readonly transport: StreamableClientTransport;

  constructor(url: string, modern: boolean, options: StreamableClientTransportOptions) {
    this.client = new Client(
      { name: 'chaos', version: '1.0.0' },
      { versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' } },
    );
    this.transport = new StreamableClientTransport(url, { ...OPTIONS, ...options });
    this.transport.reconnects$.subscribe(() => this.reconnects++);
    // The official client keeps what was set before it, and calls it first.
    this.transport.onmessage = (message) => {
      if ('method' in message || message.id === undefined) return;
      this.answers.set(message.id, (this.answers.get(message.id) ?? 0) + 1);
    };
  }

  async callAll(count: number, between: (n: number) => Promise<void> = () => Promise.resolve()): Promise<void> {
    let next = 0;
    const work = async (): Promise<void> => {
      while (next < count) {
        const n = next++;
        await between(n);
        await this.#call(n);
      }
    };
    await Promise.all(Array.from({ length: AT_A_TIME }, work));
  }

  async #call(n: number): Promise<void> {
    const seen: number[] = [];
    try {
      const args = { name: 'count', arguments: { to: STEPS + (n % 3) } };
      const { content } = await this.client.callTool(args, { onprogress: ({ progress }) => seen.push(progress) });
      this.results.push((content as { text: string }[])[0]!.text);
      // All of it: if it began anew, from the beginning.
      expect(seen.slice(seen.lastIndexOf(1))).toEqual(Array.from({ length: STEPS + (n % 3) }, (_, at) => at + 1));
    } catch (error) {
      this.failures.push(error);
    }
  }
}

const open: { close(): Promise<unknown> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).toReversed()) await each.close();
});

async function connect(
  server: RunningServer,
  choose: (method: string) => Fault,
  { modern = false, ...options }: StreamableClientTransportOptions & { modern?: boolean },
): Promise<{ proxy: Proxy; caller: Caller; chosen: Fault['is'][] }> {
  open.push(server);
  const chosen: Fault['is'][] = [];
  const fault = (method: string): Fault => {
    const next = choose(method);
    chosen.push(next.is);
    return next;
  };
  const proxy = await Proxy.start(new URL(server.url), { fault });
  open.push(proxy);
  const caller = new Caller(proxy.url.href, modern, options);
  await caller.client.connect(caller.transport);
  open.push(caller.client);
  return { proxy, caller, chosen };
}

const expectedResults = (count: number): string[] =>
  Array.from({ length: count }, (_, n) => `counted ${STEPS + (n % 3)}`).toSorted();

const kindsOf = (faults: readonly Fault[]): Fault['is'][] => [...new Set(faults.map(({ is }) => is))];

const faultsIn = (chosen: readonly Fault['is'][]): number => chosen.filter((kind) => kind !== 'none').length;

describe('behind a network of all faults', { timeout: PATIENCE_MS }, () => {
  const [, ours] = SESSION_SERVERS;

  it('C4 C6 C7: calls with progress, the server restarted twice: none lost, none answered twice', async () => {
    const { proxy, caller, chosen } = await connect(await ours!.start(), chaos(1, RESUMABLE), {
      recover: true,
      replay: 'always',
    });
    await caller.callAll(CALLS, async (n) => {
      if (n !== CALLS * 0.3 && n !== CALLS * 0.7) return;
      const another = await ours!.start();
      open.unshift(another);
      proxy.switchTo(new URL(another.url));
    });
    expect(caller.failures).toEqual([]);
    expect(caller.results.toSorted()).toEqual(expectedResults(CALLS));
    expect(Math.max(...caller.answers.values())).toBe(1);
    // A fraction of the calls does not meet every fault.
    if (LONG) expect([...new Set(chosen)].toSorted()).toEqual(['none', ...kindsOf(RESUMABLE)].toSorted());
    // Each fault, and each call that a restart interrupts, costs a handful of attempts at most.
    expect(caller.reconnects).toBeLessThan(3 * (faultsIn(chosen) + 2 * AT_A_TIME));
    expect(caller.transport.state.is).toBe('live');
  });

  it('C5 C6: where nothing may run twice, calls are answered once or fail with a type; the session lives', async () => {
    const { caller } = await connect(await ours!.start(), chaos(2, RESUMABLE), { replay: 'never' });
    await caller.callAll(CALLS);
    expect(caller.results.length + caller.failures.length).toBe(CALLS);
    expect(caller.results.length).toBeGreaterThan(CALLS / 2);
    const names = new Set(caller.failures.map((error) => (error as Error).name));
    for (const name of names)
      expect(['McpStreamLostError', 'McpHttpStatusError', 'McpClientTransportError']).toContain(name);
    expect(Math.max(...caller.answers.values())).toBe(1);
    expect(caller.transport.state.is).toBe('live');
  });

  it.each(MODERN_SERVERS.slice(1))(
    'C13: $name: calls with progress, none lost, none answered twice',
    async ({ start }) => {
      const options = { modern: true, replay: 'always' } as const;
      const { caller, chosen } = await connect(await start(), chaos(3, FAULTS), options);
      await caller.callAll(CALLS);
      expect(caller.failures).toEqual([]);
      expect(caller.results.toSorted()).toEqual(expectedResults(CALLS));
      expect(Math.max(...caller.answers.values())).toBe(1);
      expect(caller.reconnects).toBeLessThan(3 * faultsIn(chosen));
    },
  );
});
