// An app that was built, as a process: started, called by the official client, and stopped.
import { deepEqual, equal } from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { freePort, Program } from './program.mjs';

const ERAS = ['legacy', { pin: '2026-07-28' }];

/**
 * @param main what Node runs, from the folder `cwd`
 * @param prefix global prefix of the app
 * @param stock whether the app has the module of test/builders, beside that of the README
 */
export async function callApp(node, main, { cwd, prefix = '', stock = false }) {
  const port = await freePort();
  const base = new URL(`http://127.0.0.1:${port}`);
  const app = new Program(node, [main], { cwd, env: { ...process.env, PORT: `${port}` } });
  try {
    await app.until(() => fetch(base, { headers: { connection: 'close' } }));
    for (const mode of ERAS) {
      await callOrders(new URL(`${prefix}/mcp`, base), mode);
      if (stock) await callStock(new URL(`${prefix}/stock`, base), mode);
    }
    if (stock) equal((await fetch(new URL(`${prefix}/private`, base), { method: 'POST' })).status, 401);
    await app.stop();
    return app.output;
  } catch (error) {
    throw new Error(`${main}: ${error.message}\n${app.output}`, { cause: error });
  } finally {
    await app.stop('SIGKILL').catch(() => {});
  }
}

/** The tool of the README, with a schema of Zod. */
function callOrders(url, mode) {
  return withClient(url, mode, async (client) => {
    const { content } = await client.callTool({ name: 'find_order', arguments: { id: 'A-1042' } });
    deepEqual(content, [{ type: 'text', text: 'Order A-1042 is on its way.' }]);
  });
}

/** The tool of test/builders, with a class as its schema. */
function callStock(url, mode) {
  return withClient(url, mode, async (client) => {
    const { tools } = await client.listTools();
    deepEqual(
      tools.map(({ name, inputSchema }) => [name, inputSchema.required]),
      [['take', ['item', 'count', 'places']]],
    );
    const take = (places) => client.callTool({ name: 'take', arguments: { item: 'bolts', count: 3, places } });
    deepEqual((await take([{ shelf: 'A' }])).content, [{ type: 'text', text: '7 of bolts are left on A.' }]);
    equal((await take([{}])).isError, true);
  });
}

async function withClient(url, mode, use) {
  const client = new Client({ name: 'check-compat', version: '1.0.0' }, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(url);
  await client.connect(transport);
  await use(client);
  await transport.terminateSession();
  await client.close();
}
