import { fileURLToPath } from 'node:url';
import { HttpConnection } from './harness/http-connection.js';
import { modernRequest } from './harness/mcp-client.js';
import { ServerProcess } from './harness/server-process.js';

/**
 * `npm run x -- bench:values`: what a valid `tools/call` of N bytes costs a server with the default options, by CPU time of the
 * process and by the most memory that it takes above the idle process. Memory needs Linux.
 */

const SERVER = fileURLToPath(new URL('values/server.js', import.meta.url));
const SIZES = { '10 KB': 10_000, '100 KB': 100_000, '1 MB': 1_000_000, '4 MB': 4_000_000 };
const WARM_UP = 50;
/** That of the first quarter counts: other processes only add time. */
const ROUNDS = 8;
const CALLS = 10;

/** Arguments of about so many bytes. */
const CONTENTS: Readonly<Record<string, (bytes: number) => object>> = {
  'one long text': (bytes) => ({ text: 'A sentence of a long text. '.repeat(bytes / 27) }),
  'a list of numbers': (bytes) => ({ numbers: list(bytes, 21, (at) => Math.sin(at + 1)) }),
  'a list of objects': (bytes) => ({
    orders: list(bytes, 69, (at) => ({ id: `A-${10_000 + at}`, item: 'a blue teapot', quantity: at % 9, paid: true })),
  }),
};

function list<Item>(bytes: number, bytesOfOne: number, make: (at: number) => Item): Item[] {
  return Array.from({ length: bytes / bytesOfOne }, (_, at) => make(at));
}

const firstQuarter = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 2]!;

/** Returns what a request costs, as a cell of a table. */
async function costOf(args: object): Promise<string> {
  // A process keeps memory that it has had once. So each request is the first large one of its process.
  const server = await ServerProcess.start(SERVER, {});
  const connection = await HttpConnection.open(server.port);
  const send = (given: object) => {
    const { head, body } = modernRequest(1, 'tools/call', `"name":"take","arguments":${JSON.stringify(given)}`);
    return connection.exchange(`${head}Mcp-Name: take\r\n`, body);
  };
  for (let call = 0; call < WARM_UP; call++) await send({});
  await server.memory();
  const idle = server.resident();
  const { status } = await send(args);
  const mebibytes = server.resident('peak') - idle;
  const costs: number[] = [];
  for (let call = 0; call < WARM_UP; call++) await send(args);
  for (let round = 0; round < ROUNDS; round++) {
    const before = await server.cpu();
    for (let call = 0; call < CALLS; call++) await send(args);
    costs.push(((await server.cpu()) - before) / CALLS / 1_000);
  }
  connection.close();
  await server.stop();
  if (status !== 200) return `refused (${status})`;
  return `${firstQuarter(costs).toFixed(1)} ms, ${Math.max(0, mebibytes).toFixed(0)} MiB`;
}

console.log(`| arguments | ${Object.keys(SIZES).join(' | ')} |\n| --- | ${'--: | '.repeat(4)}`);
for (const [content, make] of Object.entries(CONTENTS)) {
  const cells: string[] = [];
  for (const bytes of Object.values(SIZES)) cells.push(await costOf(make(bytes)));
  console.log(`| ${content} | ${cells.join(' | ')} |`);
}
