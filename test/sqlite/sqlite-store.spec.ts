import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { OFFICIAL_CLIENTS } from '../support/official-clients.js';
import { bundle, ROOT } from '../support/bundle.js';
import { freePort } from '../../bench/harness/free-port.js';
import { describeWith } from '../support/needs.js';
import { eventually } from '../support/test-apps.js';
import { nodeWithSqlite } from './newer-node.js';
import { ended } from '../support/redis.js';

const run = promisify(execFile);
/** In the repository, so that packages are found; each test run has its own. */
const PROGRAM = join(ROOT, `build/sqlite-store-${process.pid}`);
const MAX_CODE_LINES = 250;
/** The arguments of a call that a machine does not finish, however slow the rest of the test is. */
const ENDLESS = { steps: 600, everyMs: 500 };

const node = await nodeWithSqlite();
const missing = 'No Node.js 22.13 or newer was found, and npm has none for this machine.';

describe('the files of the store', () => {
  it(`the files of the store have at most ${MAX_CODE_LINES} lines of code`, () => {
    const files = ['database.ts', 'sqlite-session-store.ts', 'sqlite-event-store.ts'];
    const lines = files.flatMap((file) => codeLines(readFileSync(join(ROOT, 'examples/sqlite-store', file), 'utf8')));
    expect(lines.length).toBeLessThanOrEqual(MAX_CODE_LINES);
  });
});

describeWith(node ? undefined : missing, 'a store in SQLite', () => {
  beforeAll(async () => {
    const example = 'examples/sqlite-store';
    await bundle({ main: `${example}/main.ts`, contract: `${example}/contract.ts` }, PROGRAM);
  });
  afterAll(() => rmSync(PROGRAM, { recursive: true, force: true }));

  it('a store in SQLite passes the contract tests', async () => {
    const said = await run(node!, ['--test', '--test-reporter=tap', 'contract.js'], { cwd: PROGRAM }).catch(
      (error: { stdout: string }) => error,
    );
    const counted = (what: string): number => Number(new RegExp(`^# ${what} (\\d+)$`, 'm').exec(said.stdout)?.[1]);
    const failed = [...said.stdout.matchAll(/^ *not ok \d+ - .*[^]*?^ *\.\.\.$/gm)].map(([block]) => block);
    expect(failed).toEqual([]);
    expect(counted('fail')).toBe(0);
    expect(counted('skipped')).toBe(0);
    expect(counted('pass')).toBeGreaterThan(50);
  });

  describe('in an app that is restarted', () => {
    let app: ExampleApp;
    beforeEach(async () => {
      app = await ExampleApp.start();
    });
    afterEach(() => app.remove());

    it.each(OFFICIAL_CLIENTS)('$name goes on with its session when the process was killed', async (kind) => {
      const client = await kind.connect(app.url);
      const { sessionId } = client;
      expect(await client.call('where')).toBe(`process ${app.pid}`);
      await app.announce('before');
      await eventually(() => expect(client.logs).toEqual(['before']));
      const counting = whileItRuns((onprogress) => client.call('count', ENDLESS, { onprogress }));
      await counting.begun;
      const killed = app.pid;

      await app.stop('SIGKILL');
      await app.start();

      expect(app.pid).not.toBe(killed);
      // Its client comes back for it by itself.
      expect(await counting.failed).toContain('The server that handled this request has failed');
      expect(await client.call('where')).toBe(`process ${app.pid}`);
      expect(client.sessionId).toBe(sessionId);
      await app.announce('after');
      await eventually(() => expect(client.logs.at(-1)).toBe('after'));
      await client.terminate();
      await client.close();
    });

    it('an event that was logged and not read before the restart is delivered after it', async () => {
      const [kind] = OFFICIAL_CLIENTS;
      const client = await kind!.connect(app.url);
      const { sessionId } = client;
      const [first] = await heard(app.url, sessionId!, 'one', () => app.announce('one'));
      await client.close();
      await app.announce('two');
      await app.announce('three');

      await app.stop('SIGKILL');
      await app.start();

      const missed = await heard(app.url, sessionId!, 'three', undefined, first!.id);
      expect(missed.map(({ text }) => text)).toEqual(['two', 'three']);
      await app.announce('four');
      const joined = await client.join();
      await eventually(() => expect(joined.logs).toContain('four'));
      expect(await joined.call('where')).toBe(`process ${app.pid}`);
      await joined.terminate();
      await joined.close();
    });

    it('an app restarted as by `nest start --watch` answers its calls, and its sessions stay', async () => {
      const [kind] = OFFICIAL_CLIENTS;
      const client = await kind!.connect(app.url);
      const counting = whileItRuns((onprogress) => client.call('count', ENDLESS, { onprogress }));
      await counting.begun;

      const stopped = app.stop('SIGTERM');
      expect(await counting.failed).toContain('This server is shutting down');
      await stopped;
      await app.start();

      expect(await client.call('where')).toBe(`process ${app.pid}`);
      await client.terminate();
      await client.close();
    });
  });
});

/** Neither blank nor comment nor import. */
function codeLines(source: string): string[] {
  const bare = source.replaceAll(/^import [^]*?;$/gm, '').replaceAll(/\/\*\*[^]*?\*\//g, '');
  return bare.split('\n').filter((line) => !/^\s*(?:\/\/.*)?$/.test(line));
}

/** A call that does not come to its end. */
function whileItRuns(call: (onprogress: () => void) => Promise<unknown>) {
  let failed!: Promise<string>;
  const begun = new Promise<void>((resolve) => {
    failed = call(resolve).then(
      (answer) => `it was answered: ${JSON.stringify(answer)}`,
      (error: unknown) => String(error),
    );
  });
  return { begun, failed };
}

interface Heard {
  readonly id: string;
  readonly text: unknown;
}

/** Reads the standalone stream up to a log message. @param listening when the response is open */
async function heard(
  url: URL,
  sessionId: string,
  last: string,
  listening: (() => Promise<void>) | undefined,
  lastEventId?: string,
): Promise<Heard[]> {
  const headers = {
    accept: 'text/event-stream',
    'mcp-session-id': sessionId,
    ...(lastEventId !== undefined && { 'last-event-id': lastEventId }),
  };
  const closing = new AbortController();
  const response = await fetch(url, { headers, signal: closing.signal });
  expect(response.status).toBe(200);
  await listening?.();
  const found: Heard[] = [];
  for await (const event of response
    .body!.pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())) {
    if (event.data === '') continue;
    const text: unknown = JSON.parse(event.data).params.data;
    found.push({ id: event.id!, text });
    if (text === last) break;
  }
  closing.abort();
  return found;
}

/** The example, as a process over a file of its own. */
class ExampleApp {
  readonly #folder = mkdtempSync(join(tmpdir(), 'mcp-sqlite-'));
  #process: ChildProcess | undefined;

  private constructor(private readonly port: number) {}

  static async start(): Promise<ExampleApp> {
    const app = new ExampleApp(await freePort());
    await app.start();
    return app;
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${this.port}/mcp`);
  }

  get pid(): number | undefined {
    return this.#process?.pid;
  }

  /** On the same port, over the same file. Settles when it serves. */
  async start(): Promise<void> {
    const env = { ...process.env, PORT: String(this.port), SQLITE_FILE: join(this.#folder, 'sessions.sqlite') };
    const args = ['--enable-source-maps', '--disable-warning=ExperimentalWarning', join(PROGRAM, 'main.js')];
    const child = spawn(node!, args, { env, stdio: ['ignore', 'pipe', 'inherit'] });
    this.#process = child;
    await new Promise<void>((resolve, reject) => {
      child.once('exit', (code) => reject(new Error(`The example has ended with ${code}.`)));
      child.stdout.on('data', (text: Buffer) => {
        if (text.includes('listens on')) resolve();
      });
    });
  }

  async stop(signal: 'SIGKILL' | 'SIGTERM'): Promise<void> {
    const child = this.#process;
    if (!child) return;
    this.#process = undefined;
    await ended(child, signal);
  }

  /** Tells all sessions. */
  async announce(text: string): Promise<void> {
    const response = await fetch(new URL(`/announcements/${text}`, this.url), { method: 'POST' });
    expect(await response.json()).toEqual({ sessions: 1 });
  }

  async remove(): Promise<void> {
    await this.stop('SIGKILL');
    rmSync(this.#folder, { recursive: true });
  }
}
