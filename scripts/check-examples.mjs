// Each folder of examples/ with a package.json stands alone: copies it out of the repository, installs it with the packed
// tarball, starts it by `npm start`, calls its tools with the official client, runs its tests, and ends it by SIGTERM.
//
//   node scripts/check-examples.mjs                    all
//   node scripts/check-examples.mjs oauth cluster      these
//   node scripts/check-examples.mjs --versions         writes the repository's versions into the package.json of each
import { deepEqual, equal, notEqual, ok } from 'node:assert/strict';
import { cpSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { installNode } from './node-of-npm.mjs';
import { freePort, Program } from './package/program.mjs';
import { install, root, run, step } from './package/run.mjs';
import { manifest, pack } from './package/tarball.mjs';

const FOLDER = join(root, 'examples');
/** What copies are without. */
const MADE = new Set(['node_modules', 'dist', 'package-lock.json']);
/** While one waits for npm, the other compiles. */
const AT_ONCE = 2;

/** One example, in a folder of its own. */
class Example {
  constructor(name, folder) {
    this.name = name;
    this.folder = join(folder, name);
    const isSource = (path) => !MADE.has(basename(path));
    cpSync(join(FOLDER, name), this.folder, { recursive: true, filter: isSource });
    this.json = JSON.parse(readFileSync(join(this.folder, 'package.json'), 'utf8'));
    this.env = process.env;
  }

  /** @param tarball takes the place of what the npm registry has */
  async install(tarball) {
    this.json.dependencies[manifest.name] = `file:${tarball}`;
    writeFileSync(join(this.folder, 'package.json'), JSON.stringify(this.json));
    await install(this.folder);
  }

  /** Runs a script of its package.json until it ends. @returns what it printed */
  npm(args, env = {}) {
    return run('npm', args, { cwd: this.folder, env: { ...this.env, ...env } });
  }

  /** Starts it for the time of an action, which gets the URL of its endpoint. SIGTERM must end it. */
  async started(action, { port, ...env } = {}) {
    const free = port ?? (await freePort());
    const options = { cwd: this.folder, env: { ...this.env, PORT: `${free}`, ...env } };
    const program = new Program('npm', ['start'], options);
    try {
      const origin = `http://127.0.0.1:${free}`;
      // Without a token some answer 401, which is an answer.
      await program.until(async () => notEqual((await fetch(`${origin}/mcp`)).status, 502));
      const result = await action({ url: `${origin}/mcp`, origin, program });
      await program.stop();
      return result;
    } catch (error) {
      throw new Error(`${error.stack}\n${program.output}`, { cause: error });
    } finally {
      await program.stop('SIGKILL').catch(() => {});
    }
  }
}

/** The official client for the time of an action, which gets it and a short way to call tools. */
async function called(url, action, headers = {}) {
  const client = new Client({ name: 'check-examples', version: '1.0.0' });
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  try {
    const call = async (name, args = {}) => {
      const { content, isError } = await client.callTool({ name, arguments: args });
      const text = content.map((block) => block.text).join('\n');
      ok(!isError, `${name} failed: ${text}`);
      return text;
    };
    return await action({ call, client, transport });
  } finally {
    await transport.terminateSession().catch(() => {});
    await client.close();
  }
}

/** @returns the text of a tool of the program that the quickstart has for clients which start their servers */
async function overStdio({ folder }, name, args) {
  const client = new Client({ name: 'check-examples', version: '1.0.0' });
  const program = { command: process.execPath, args: ['dist/stdio.js'], cwd: folder, stderr: 'ignore' };
  await client.connect(new StdioClientTransport(program));
  const { content } = await client.callTool({ name, arguments: args });
  await client.close();
  return content[0].text;
}

/** What is checked of an example besides its start and its tests. */
const CHECKS = {
  quickstart: (example, { client }) =>
    example.started(async ({ url }) => {
      const found = await called(url, ({ call }) => call('search_docs', { query: 'npm start' }));
      ok(found.includes('README.md'), found);
      if (client) ok((await client.npm(['start', '--', 'npm start'], { MCP_URL: url })).includes(found));
      equal(await overStdio(example, 'search_docs', { query: 'npm start' }), found);
    }),
  // Runs in the check of the quickstart, which it needs.
  client: undefined,
  oauth: goesThroughTheLogin,
  'login-proxy': goesThroughTheLogin,
  cluster: (example) =>
    withRedis(async (redisUrl) =>
      example.started(
        ({ url, program }) =>
          called(url, async ({ call }) => {
            // One of the nodes may still be on its way.
            const nodes = new Set();
            await program.until(async () => equal(nodes.add(await call('where')).size, 2));
          }),
        { port: await freePort(3), REDIS_URL: redisUrl },
      ),
    ),
  kubernetes: (example) =>
    withRedis((redisUrl) =>
      example.started(({ url }) => called(url, ({ call }) => call('where')), {
        REDIS_URL: redisUrl,
        REQUEST_STATE_KEY: 'k'.repeat(44),
        ALLOWED_HOSTS: '127.0.0.1',
      }),
    ),
  'sqlite-store': async (example) => {
    const node = nodeWithSqlite();
    example.env = { ...process.env, PATH: `${dirname(node)}:${process.env.PATH}` };
    const env = { port: await freePort() };
    const before = await example.started(async ({ url }) => {
      const client = new Client({ name: 'check-examples', version: '1.0.0' });
      const transport = new StreamableHTTPClientTransport(new URL(url));
      await client.connect(transport);
      const { text } = (await client.callTool({ name: 'where' })).content[0];
      return { client, transport, text, id: transport.sessionId };
    }, env);
    try {
      ok(before.id, 'there is no session');
      await example.started(async () => {
        const { text } = (await before.client.callTool({ name: 'where' })).content[0];
        notEqual(text, before.text);
        equal(before.transport.sessionId, before.id);
        await before.transport.terminateSession();
      }, env);
    } finally {
      await before.client.close();
    }
  },
  testing: (example) =>
    example.started(({ url }) =>
      called(url, async ({ call }) => equal(await call('weigh', { id: 'P-17' }), '{"grams":400}')),
    ),
  saas: (example) =>
    example.started(({ origin }) =>
      called(`${origin}/tenants/acme/mcp`, ({ call }) => call('list_orders'), { 'x-api-key': 'key-of-ann' }),
    ),
  // It starts two servers, and a Redis if there is one.
  gateway: async (example) =>
    example.started(
      ({ url, program }) =>
        called(
          url,
          async ({ call, client }) => {
            // The servers may still be on their way.
            await program.until(async () => ok((await call('weather_forecast', { city: 'Bern' })).includes('Bern')));
            await program.until(async () => equal(await call('tickets_list'), 'T-1 of ann@tickets is open.'));
            const names = (await client.listTools()).tools.map(({ name }) => name);
            deepEqual(names, ['weather_forecast', 'tickets_close', 'tickets_list']);
          },
          { 'x-api-key': 'key-of-ann' },
        ),
      { port: await freePort(4) },
    ),
  // It starts a PostgreSQL for itself.
  crm: (example) =>
    example.started(async ({ origin, url }) => {
      equal((await fetch(`${origin}/contacts`)).status, 401);
      equal((await fetch(`${origin}/mcp-live`)).status, 401);
      const login = await fetch(`${origin}/auth/login`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ name: 'ann', password: 'secret of ann' }),
      });
      const { token } = await login.json();
      const found = await called(url, ({ call }) => call('contacts_find'), { authorization: `Bearer ${token}` });
      ok(found.includes('Coyote'), found);
    }),
  'existing-app': (example) =>
    example.started(async ({ origin }) => {
      const send = async (path, body, headers = {}) => {
        const response = await fetch(`${origin}/${path}`, {
          ...(body && { method: 'POST', body: JSON.stringify(body) }),
          headers: { 'content-type': 'application/json', ...headers },
        });
        return { status: response.status, json: await response.json() };
      };
      equal((await send('api/v1/orders')).status, 401);
      equal((await send('api/mcp', {})).status, 401);
      const { json } = await send('api/v1/auth/login', { name: 'ann', password: 'secret of ann' });
      const headers = { authorization: `Bearer ${json.data.token}` };
      await called(`${origin}/api/mcp`, ({ call }) => call('orders_create', { item: 'tea' }), headers);
      const { data } = (await send('api/v1/orders', undefined, headers)).json;
      deepEqual(data, [{ id: 'A-1', item: 'tea', count: 1, state: 'open' }]);
      equal((await fetch(`${origin}/docs`)).status, 200);
    }),
};

/** A Redis for the time of an action, which gets its URL. */
async function withRedis(action) {
  const port = await freePort();
  const server = new Program('redis-server', ['--port', `${port}`, '--bind', '127.0.0.1', '--save', '']);
  try {
    await server.until(() => ok(server.output.includes('Ready to accept connections'), server.output));
    await action(`redis://127.0.0.1:${port}`);
  } finally {
    await server.stop();
  }
}

/** A client without a token finds the login, and gets one. */
async function goesThroughTheLogin(example) {
  const [port, issuer, idp] = [await freePort(), await freePort(), await freePort()];
  await example.started(
    async ({ url }) => {
      equal((await fetch(url, { method: 'POST' })).status, 401);
      const lines = (await example.npm(['run', '--silent', 'client', '--', url])).trim().split('\n');
      deepEqual(lines, [
        'There are no notes yet. (scopes: notes:read)',
        'You have 1 notes. (scopes: notes:read notes:write)',
        'Buy milk (scopes: notes:read notes:write)',
      ]);
    },
    { port, ISSUER_PORT: `${issuer}`, IDP_PORT: `${idp}` },
  );
}

/** Of an example that has no check of its own: its tools are listed. */
const startsAndLists = (example) =>
  example.started(({ url }) =>
    called(url, async ({ client }) => ok((await client.listTools()).tools.length > 0, 'there are no tools')),
  );

/** The first with `node:sqlite`, and without a flag for it, is 22.13. */
function nodeWithSqlite() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  const node = major > 22 || (major === 22 && minor >= 13) ? process.execPath : installNode('24');
  ok(node, 'sqlite-store needs Node.js 22.13 or newer, and npm has none for this machine');
  return node;
}

/** Two at a time; the next begins when one is done. @throws what failed, when all have come to an end */
async function forEach(examples, action) {
  const waiting = [...examples];
  const errors = [];
  const work = async () => {
    for (let example = waiting.shift(); example; example = waiting.shift()) {
      await action(example).catch((error) => errors.push(new Error(`${example.name}: ${error.message}`)));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (errors.length > 0) throw new Error(errors.map(({ message }) => message).join('\n\n'));
}

async function check(names) {
  const temporary = mkdtempSync(join(tmpdir(), 'check-examples-'));
  try {
    const tarball = await step('builds and packs', () => pack(temporary));
    // The client needs a server to call.
    const needed = names.includes('client') ? ['quickstart', ...names] : names;
    const examples = [...new Set(needed)].map((name) => new Example(name, temporary));
    const byName = Object.fromEntries(examples.map((example) => [example.name, example]));
    await forEach(examples, (example) => step(`${example.name}: installs`, () => example.install(tarball)));
    await forEach(examples, async (example) => {
      const own = example.name in CHECKS ? CHECKS[example.name] : startsAndLists;
      if (own) await step(`${example.name}: starts, answers, ends`, () => own(example, byName));
      if (example.json.scripts.test) await step(`${example.name}: its tests pass`, () => example.npm(['test']));
    });
  } finally {
    rmSync(temporary, { recursive: true, force: true });
  }
}

/** The package.json of the repository decides: its developers compile and test the examples with these versions. */
function writeVersions(name) {
  const path = join(FOLDER, name, 'package.json');
  const json = JSON.parse(readFileSync(path, 'utf8'));
  for (const packages of [json.dependencies, json.devDependencies]) {
    for (const dependency of Object.keys(packages)) packages[dependency] = versionOf(dependency, name);
  }
  writeFileSync(path, `${JSON.stringify(json, undefined, 2)}\n`);
}

function versionOf(dependency, name) {
  const version = dependency === manifest.name ? `^${manifest.version}` : manifest.devDependencies[dependency];
  ok(version, `examples/${name} needs ${dependency}, which is no dev dependency of the repository`);
  return version;
}

const standAlone = readdirSync(FOLDER).filter((name) => existsSync(join(FOLDER, name, 'package.json')));
const args = process.argv.slice(2);
try {
  const unknown = args.filter((name) => name !== '--versions' && !standAlone.includes(name));
  deepEqual(unknown, [], `there are: ${standAlone.join(', ')}`);
  if (args.includes('--versions')) standAlone.forEach(writeVersions);
  else await check(args.length > 0 ? args : standAlone);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
