import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StreamableClientTransport } from 'nestjs-mcp-streamable/client';
import { afterEach, expect, it, onTestFailed } from 'vitest';
import { describeRedis } from '../support/redis.js';
import { LONG } from '../support/share.js';
import { ChaosCluster } from './chaos/cluster.js';
import { eventually } from '../support/eventually.js';
import { MODERN } from '../support/modern-client.js';

/** So many calls are answered before a balancer notices that a node stops. */
const UNNOTICED = 200;
/** Far more than these calls take: the default of 3 s may be too short on a machine that does much else. */
const DELAY_MS = 20_000;
const LIMIT_MS = 600_000;
const INFO = { name: 'rolling', version: '1.0.0' };
const PINNED = { versionNegotiation: { mode: { pin: MODERN } } } as const;

interface Caller {
  callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown>;
  close(): Promise<void>;
}

const KINDS: Readonly<Record<string, (url: URL) => Promise<Caller>>> = {
  'sdk 1.32': async (url) => {
    const client = new ClientV1(INFO);
    await client.connect(new TransportV1(url));
    return client;
  },
  'client 2.4': (url) => connected(new ClientV2(INFO), new TransportV2(url)),
  [`client 2.4, ${MODERN}`]: (url) => connected(new ClientV2(INFO, PINNED), new TransportV2(url)),
  ours: (url) => connected(new ClientV2(INFO), new StreamableClientTransport(url)),
  [`ours, ${MODERN}`]: (url) => connected(new ClientV2(INFO, PINNED), new StreamableClientTransport(url)),
};

async function connected(client: ClientV2, transport: Parameters<ClientV2['connect']>[0]): Promise<ClientV2> {
  await client.connect(transport);
  return client;
}

/** Every tenth call outlasts `sseAfterMs`, so that it is a stream. */
function work(key: string, at: number) {
  const [steps, everyMs] = at % 10 === 0 ? [4, 200] : [0, 20];
  return { name: 'work', arguments: { key, steps, everyMs, askAt: steps + 1 } };
}

describeRedis(
  'three nodes on Redis that are restarted one after the other',
  () => {
    let cluster: ChaosCluster;
    let callers: [kind: string, caller: Caller][] = [];
    let answered: number;

    afterEach(async () => {
      await Promise.all(callers.map(([, caller]) => caller.close()));
      await cluster.stop();
    });

    async function restartAll(): Promise<void> {
      for (const node of cluster.nodes) {
        const ended = node.end('SIGTERM');
        // The subject is a balancer that still sends calls to a process that stops.
        const noticed = answered + UNNOTICED;
        await eventually(() => expect(answered).toBeGreaterThan(noticed));
        const at = cluster.rotation.findIndex(({ href }) => href === node.url.href);
        cluster.rotation.splice(at, 1);
        await ended;
        await node.start();
        cluster.rotation.push(node.url);
      }
    }

    // Three restarts take more than `DELAY_MS` each.
    it.runIf(LONG)(
      'nodes: a balancer that notices late that a node stops costs no call of any client',
      async () => {
        const open = new Set<string>();
        onTestFailed(() => void process.stderr.write(`open: ${[...open].join(', ')}\n${cluster.log}`));
        cluster = await ChaosCluster.start(3, { adapters: ['express', 'fastify'], shutdownDelayMs: DELAY_MS });
        const url = new URL(cluster.url);
        callers = await Promise.all(
          Object.entries(KINDS).map(async ([kind, connect]): Promise<[string, Caller]> => [kind, await connect(url)]),
        );
        const restarting = { isOver: false };
        const failed: string[] = [];
        answered = 0;
        const call = async ([name, caller]: [string, Caller]): Promise<void> => {
          for (let at = 0; !restarting.isOver; at++) {
            const key = `${name}/${at}`;
            open.add(key);
            await caller.callTool(work(key, at)).then(
              () => answered++,
              (error: unknown) => failed.push(`${key}: ${String(error)}`),
            );
            open.delete(key);
          }
        };
        await Promise.all([restartAll().finally(() => (restarting.isOver = true)), ...callers.map(call)]);
        expect(failed).toEqual([]);
        expect(answered).toBeGreaterThan(callers.length * 20);
        process.stdout.write(`a rolling restart: ${answered} calls answered\n`);
      },
      LIMIT_MS,
    );
  },
  'server',
);
