import { type ChildProcess, fork } from 'node:child_process';
import { on, once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { createInterface } from 'node:readline';
import type { Cost } from './measured.js';
import type { Kind } from './node.js';
import type { Place } from './places.js';

const INTERNAL_ERROR = -32603;
const MAX_HEAP = '--max-old-space-size=256';
const INITIALIZE =
  '{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"x","version":"1"}}';

type Headers = Readonly<Record<string, string>>;

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** An answer, and what it cost the process that gave it. */
export type Measured = Cost & Answer;

/** A process with little memory, which measures itself. */
export class MeasuredProcess {
  private constructor(private readonly child: ChildProcess) {}

  /** @returns the process, and what it says first */
  static async start<T>(program: string, args: readonly string[] = []): Promise<[process: MeasuredProcess, said: T]> {
    const execArgv = [MAX_HEAP, '--expose-gc'];
    const lines = args.includes('stdio') ? 'pipe' : 'ignore';
    const started = new MeasuredProcess(fork(program, args, { execArgv, stdio: [lines, lines, 'inherit', 'ipc'] }));
    return [started, await started.#said<T>()];
  }

  /** Measures the process during a piece of work. @throws when it has ended */
  async measured<T extends object>(work: () => Promise<T>): Promise<T & Cost> {
    this.child.send('begin');
    await this.#said();
    const answer = await work();
    this.child.send('end');
    return { ...answer, ...(await this.#said<Cost>()) };
  }

  /** Sends an order. @returns the answer @throws when the process has ended */
  async ask<T>(order: object): Promise<T> {
    this.child.send(order);
    return this.#said<T>();
  }

  /** Makes a function that sends a message as a line to the input of the process. */
  lines(): (body: string) => Promise<Answer> {
    const lines = on(createInterface({ input: this.child.stdout! }), 'line', { close: ['close'] });
    return async (body) => {
      this.child.stdin!.write(`${body}\n`);
      for (;;) {
        const { done, value } = (await lines.next()) as IteratorResult<[string]>;
        if (done) throw new Error('The process has ended.');
        const [text] = value;
        const { result, error } = JSON.parse(text) as { result?: object; error?: { code: number } };
        if (result ?? error) return { status: error?.code === INTERNAL_ERROR ? 500 : 200, text };
      }
    };
  }

  async close(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode) return;
    this.child.disconnect();
    await once(this.child, 'exit');
  }

  async #said<T>(): Promise<T> {
    const gone = new AbortController();
    const { signal } = gone;
    const ended = once(this.child, 'exit', { signal }).then(([code, by]) => {
      throw new Error(`The process has ended (${code ?? by}).`);
    });
    const [message] = (await Promise.race([once(this.child, 'message', { signal }), ended]).finally(() => {
      gone.abort();
      ended.catch(() => {});
    })) as [T];
    return message;
  }
}

/** A server in a process of its own with little memory, and a client with a session. */
export class MeasuredNode {
  readonly #url: string;
  #session: Headers = {};
  #post: (body: string, headers: Headers) => Promise<Answer> = (body, headers) => posted(this.#url, body, headers);
  #lastId = 10;

  private constructor(
    private readonly process: MeasuredProcess,
    url: string,
  ) {
    this.#url = url;
  }

  static async start(program: string, kind: Kind): Promise<MeasuredNode> {
    const node = new MeasuredNode(...(await MeasuredProcess.start<string>(program, [kind])));
    if (kind === 'stdio') {
      node.#post = node.process.lines();
      await node.#post(bodyOf('initialize', INITIALIZE, 1), {});
      return node;
    }
    const { response } = await opened(node.#url, bodyOf('initialize', INITIALIZE, 1), {});
    node.#session = {
      'mcp-session-id': response.headers['mcp-session-id'] as string,
      'mcp-protocol-version': '2025-11-25',
    };
    await textOf(response);
    // A session that is unused ends after a minute, and what is refused by its size is no use of it.
    await posted(node.#url, '{"jsonrpc":"2.0","method":"notifications/initialized"}', node.#session);
    return node;
  }

  /** Sends a request that has a value in a place. @throws when the process or the session has ended */
  async ask({ era, method, named, params }: Place, value: string): Promise<Measured> {
    const modern = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, ...(named && { 'mcp-name': named }) };
    const ofSession = method === 'initialize' ? {} : this.#session;
    const measured = await this.process.measured(() =>
      this.#post(bodyOf(method, params(value), 7), era === 'modern' ? modern : ofSession),
    );
    if (measured.status === 404 && era === 'legacy') throw new Error(`The session has ended: ${measured.text}`);
    return measured;
  }

  /** Answers the question of a tool. @param result the text of the answer; the tool is cancelled if it is refused */
  async answer(result: string): Promise<Measured> {
    const call = await opened(
      this.#url,
      bodyOf('tools/call', '{"name":"ask","arguments":{}}', ++this.#lastId),
      this.#session,
    );
    const chunks = call.response.setEncoding('utf8').iterator({ destroyOnReturn: false }) as AsyncIterable<string>;
    let asked: RegExpExecArray | null = null;
    for await (const chunk of chunks) if ((asked = /^data: (\{.*)$/m.exec(chunk))) break;
    if (!asked) throw new Error(`The tool asked nothing: ${call.response.statusCode}.`);
    const { id } = JSON.parse(asked[1]!) as { id: string };
    const rest = textOf(call.response).catch(() => '');
    const measured = await this.process.measured(async () => {
      const answer = await posted(
        this.#url,
        `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`,
        this.#session,
      );
      // What the server makes of it takes some turns.
      if (answer.status === 202) await rest;
      return answer;
    });
    call.close();
    return measured;
  }

  close(): Promise<void> {
    return this.process.close();
  }
}

function bodyOf(method: string, params: string, id: number): string {
  return `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`;
}

/** Sends a POST over a connection of its own. */
async function opened(
  url: string,
  body: string,
  headers: Headers,
): Promise<{ response: IncomingMessage; close(): void }> {
  const bytes = Buffer.from(body);
  const all = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'content-length': bytes.length,
    ...headers,
  };
  const sent = request(url, { method: 'POST', headers: all, agent: false });
  sent.end(bytes);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  return { response, close: () => void sent.destroy() };
}

async function posted(url: string, body: string, headers: Headers): Promise<Answer> {
  const { response } = await opened(url, body, headers);
  return { status: response.statusCode!, text: await textOf(response) };
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  for await (const chunk of response.setEncoding('utf8')) text += chunk as string;
  return text;
}
