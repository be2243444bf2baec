import { fileURLToPath } from 'node:url';
import { HttpConnection } from './harness/http-connection.js';
import { inParallel } from './harness/in-parallel.js';
import { callAdd, NO_SESSION, openSession } from './harness/mcp-client.js';
import { ServerProcess } from './harness/server-process.js';
import { median, undisturbed } from './harness/statistics.js';
import { cpuTimes, type Loaded } from './harness/work.js';

/**
 * `npm run x -- bench:start`: what it costs to import the package, to start an app with many tools, to call one for the first time, and
 * to list 1,000 of them, by CPU time of the process. Beside it stands an app on Fastify with as many routes. `SCHEMA=json` takes JSON
 * Schemas in place of Zod's.
 */

const SERVER = fileURLToPath(new URL('start/server.js', import.meta.url));
const ROUNDS = Number(process.env['ROUNDS'] ?? 9);
const [FEW, MANY, LISTED] = [10, 500, 1_000];
const IMPORTS = ['import of Nest', 'import of the package'];
const listRequest = (id: number): string => `{"jsonrpc":"2.0","id":${id},"method":"tools/list"}`;

type What = 'ours' | 'bare';

const startOf = (what: What, tools: number): Promise<ServerProcess> =>
  ServerProcess.start(SERVER, { WHAT: what, TOOLS: String(tools) });

/** Milliseconds of CPU time by step, and bytes of memory, of a fresh process. */
async function started(what: What, tools: number): Promise<Record<string, number>> {
  const server = await startOf(what, tools);
  const steps = await server.gauges();
  const { heap, external } = await server.memory();
  const found = { ...steps, memory: heap + external };
  if (what === 'bare') {
    await server.stop();
    return found;
  }
  const connection = await HttpConnection.open(server.port);
  const times = [await server.cpu()];
  const session = await openSession(connection);
  times.push(await server.cpu());
  await callAdd(connection, session, 1);
  times.push(await server.cpu());
  connection.close();
  await server.stop();
  const [before, opened, called] = times as [number, number, number];
  return { ...found, 'first session': (opened - before) / 1_000, 'first call': (called - opened) / 1_000 };
}

/** The processes of a round run one after the other. */
async function allStarted(): Promise<Map<string, Record<string, number>>> {
  const variants = [FEW, MANY].flatMap((tools) => (['ours', 'bare'] as const).map((what) => ({ what, tools })));
  const rounds = new Map<string, Record<string, number>[]>(variants.map(({ what, tools }) => [`${what} ${tools}`, []]));
  for (let round = 0; round < ROUNDS; round++) {
    for (const { what, tools } of variants) rounds.get(`${what} ${tools}`)!.push(await started(what, tools));
  }
  return new Map(
    Array.from(rounds, ([variant, all]) => [
      variant,
      Object.fromEntries(Object.keys(all[0]!).map((step) => [step, median(all.map((each) => each[step]!))])),
    ]),
  );
}

/** Microseconds of CPU time of a list of many tools. */
async function listed(): Promise<Record<string, number>> {
  const servers = await Promise.all(
    (['ours', 'bare'] as const).map(async (key) => ({ key, server: await startOf(key, LISTED) })),
  );
  const loaded = await Promise.all(
    servers.map(async ({ key, server }): Promise<Loaded> => {
      const first = await HttpConnection.open(server.port);
      const { post } = key === 'ours' ? await openSession(first) : NO_SESSION;
      const load = (count: number): Promise<void> =>
        inParallel(server.port, count, async (connection, index) => {
          const { body } = await connection.exchange(post, listRequest(index));
          if (!body.includes(`"add${LISTED - 1}"`))
            throw new Error(`Expected ${LISTED} tools, got ${body.slice(0, 200)}`);
        });
      return { key, servers: [server], load, warmUp: 400 };
    }),
  );
  const { rounds } = await cpuTimes(loaded, { rounds: 16, roundMs: 160, turnMs: 20, warmMs: 1_500 });
  for (const { server } of servers) await server.stop();
  return Object.fromEntries(Object.entries(rounds).map(([key, values]) => [key, undisturbed(values)]));
}

const row = (...cells: readonly string[]): void => console.log(`| ${cells.join(' | ')} |`);
const ms = (value: number | undefined): string => (value === undefined ? '–' : `${value.toFixed(0)} ms`);

const found = await allStarted();
row('step', `ours, ${FEW} tools`, `${FEW} routes`, `ours, ${MANY} tools`, `${MANY} routes`);
row('---', '--:', '--:', '--:', '--:');
for (const step of [...IMPORTS, 'start', 'first session', 'first call']) {
  row(
    step,
    ...[FEW, MANY].flatMap((tools) => ['ours', 'bare'].map((what) => ms(found.get(`${what} ${tools}`)![step]))),
  );
}
for (const what of ['ours', 'bare']) {
  const [few, many] = [FEW, MANY].map((tools) => found.get(`${what} ${tools}`)!);
  const each = (step: string): number => (many![step]! - few![step]!) / (MANY - FEW);
  const start = `${(each('start') * 1_000).toFixed(0)} µs to start`;
  console.log(`Each ${what === 'ours' ? 'tool' : 'route'}: ${start}, ${(each('memory') / 1_024).toFixed(1)} KiB`);
}
const { ours, bare } = await listed();
console.log(
  `A list of ${LISTED} tools: ${ours!.toFixed(0)} µs; the bare route with that answer: ${bare!.toFixed(0)} µs (${(ours! / bare!).toFixed(2)}×)`,
);
