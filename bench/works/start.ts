import { fileURLToPath } from 'node:url';
import { HttpConnection } from '../harness/http-connection.js';
import { callAdd, openSession } from '../harness/mcp-client.js';
import { ServerProcess } from '../harness/server-process.js';
import { START, STARTS } from '../harness/subjects.js';
import { interleaved, type Unit, type Work, type WorkResult } from '../harness/work.js';

const [FEW, MANY] = [10, 500];
/** A process has one start, which takes a second. */
const ROUNDS_PER_START = 2;

const UNITS: Readonly<Record<string, Unit>> = {
  'import of Nest, and of the package': 'µs',
  [`start of an app with ${MANY} tools`]: 'µs',
  'its first session': 'µs',
  'its first call': 'µs',
  'memory per tool': 'bytes',
};
const [IMPORT, LISTENING, FIRST_SESSION, FIRST_CALL, MEMORY] = Object.keys(UNITS) as [
  string,
  string,
  string,
  string,
  string,
];

type Name = (typeof STARTS)[number]['name'];

/**
 * What an app pays once, on Fastify: each time in a fresh process, ours and one with as many routes by turns. Ours is the package as it is
 * published.
 */
export const start: Work = {
  name: 'start',
  run: async (plan) => {
    if (plan.subjects.length > 0 && !plan.subjects.includes('ours-fastify')) return [];
    const ENTRY = await mainEntry();
    const found = Object.fromEntries(Object.keys(UNITS).map((title) => [title, {} as Record<Name, number[]>]));
    const keep = (title: string, name: Name, value: number): void => void (found[title]![name] ??= []).push(value);
    await interleaved(STARTS, Math.ceil(plan.rounds / ROUNDS_PER_START), async ({ name }) => {
      const few = await withApp({ WHAT: name, TOOLS: `${FEW}`, ENTRY }, plan.profile, memoryOf);
      await withApp({ WHAT: name, TOOLS: `${MANY}`, ENTRY }, plan.profile, async (server) => {
        const { start, ...imports } = await server.gauges();
        keep(IMPORT, name, 1_000 * Object.values(imports).reduce((sum, ms) => sum + ms, 0));
        keep(LISTENING, name, 1_000 * start!);
        keep(MEMORY, name, ((await memoryOf(server)) - few) / (MANY - FEW));
        await (name === 'ours' ? beginOurs : beginRoutes)(server, (title, cost) => keep(title, name, cost));
      });
    });
    return Object.entries(found).map(([title, rounds]): WorkResult => ({
      work: 'start',
      title,
      unit: UNITS[title]!,
      rounds,
    }));
  },
};

const REPOSITORY = new URL('../../../', import.meta.url);

/** Joins the programs of the package, as it is published, in the repository, where packages are found. @returns the URL of its main entry */
async function mainEntry(): Promise<string> {
  const { writePackage } = (await import(new URL('scripts/join.mjs', REPOSITORY).href)) as Join;
  const folder = new URL('build/bench-package/', REPOSITORY);
  await writePackage(fileURLToPath(folder));
  return new URL('index.js', folder).href;
}

/** What is used of that script. */
interface Join {
  writePackage(folder: string): Promise<void>;
}

async function withApp<T>(
  app: { readonly WHAT: Name; readonly TOOLS: string; readonly ENTRY: string },
  profile: string | undefined,
  use: (server: ServerProcess) => Promise<T>,
): Promise<T> {
  const isProfiled = profile && app.TOOLS === String(MANY);
  const nodeArgs = isProfiled ? ['--cpu-prof', `--cpu-prof-dir=${profile}/start-${app.WHAT}`] : [];
  const server = await ServerProcess.start(START, app, { nodeArgs });
  try {
    return await use(server);
  } finally {
    await server.stop();
  }
}

type Keep = (title: string, cost: number) => void;

async function beginOurs(server: ServerProcess, keep: Keep): Promise<void> {
  const connection = await HttpConnection.open(server.port);
  const before = await server.cpu();
  const session = await openSession(connection);
  const opened = await server.cpu();
  keep(FIRST_SESSION, opened - before);
  await callAdd(connection, session, 1);
  keep(FIRST_CALL, (await server.cpu()) - opened);
  connection.close();
}

async function beginRoutes(server: ServerProcess, keep: Keep): Promise<void> {
  const connection = await HttpConnection.open(server.port);
  const before = await server.cpu();
  const headers = 'Content-Type: application/json\r\n';
  const { body } = await connection.exchange(`POST /tools/add HTTP/1.1\r\n${headers}`, '{"a":1,"b":2}');
  if (!body.includes('"3"')) throw new Error(`Expected 3, got ${body}`);
  keep(FIRST_CALL, (await server.cpu()) - before);
  connection.close();
}

async function memoryOf(server: ServerProcess): Promise<number> {
  const { heap, external } = await server.memory();
  return heap + external;
}
