import { once } from 'node:events';
import { rmSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { McpClientOptions } from 'nestjs-mcp-streamable/client';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { type FakeAnswer, FakeMcpServer, frame, initialized, result, status } from '../support/fake-mcp-server.js';
import { LONG } from '../support/share.js';
import { MeasuredProcess } from './values/child.js';
import type { Order, Outcome } from './values/client.js';
import type { Cost } from './values/measured.js';

const PROGRAM = join(ROOT, `build/hostile-servers-${process.pid}`);

/** Long runs have the default limits. */
const LIMITS = LONG
  ? { maxMessageBytes: 32 * 1024 ** 2, maxMessageValues: 500_000 }
  : { maxMessageBytes: 2 * 1024 ** 2, maxMessageValues: 30_000 };
const { maxMessageBytes: BYTES, maxMessageValues: VALUES } = LIMITS;
/** Any call may cost so much. */
const MOST = LONG ? { cpuMs: 10_000, mebibytes: 250 } : { cpuMs: 2_000, mebibytes: 100 };

const DONE = { content: [] };
const META = { 'io.modelcontextprotocol/serverInfo': { name: 'fake', version: '1.0.0' } };
const MODERN = { versionNegotiation: { mode: 'auto' as const } };
const DISCOVERED = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  ttlMs: 0,
  cacheScope: 'private',
  _meta: META,
};

const repeated = (item: string, count: number): string => `[${Array.from({ length: count }, () => item).join()}]`;
const chunksOf = (item: string, bytes: number): { text: string; count: number } => {
  const text = item.repeat(Math.ceil(65_536 / item.length));
  return { text, count: Math.ceil(bytes / text.length) };
};

/** An answer with a result that is written as JSON. */
const raw = (member: string): FakeAnswer => {
  return (response, { body }) =>
    void response
      .writeHead(200, { 'content-type': 'application/json' })
      .end(`{"jsonrpc":"2.0","id":${JSON.stringify(body.id)},${member}}`);
};
/** An event stream that begins with a text, and then repeats another one for so many bytes. */
const endless = (item: string, bytes: number, begin = ''): FakeAnswer => {
  return async (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(begin);
    const { text, count } = chunksOf(item, bytes);
    for (let at = 0; at < count && !response.closed; at++) if (!response.write(text)) await drained(response);
    response.end();
  };
};
const drained = (response: ServerResponse): Promise<unknown> =>
  Promise.race([once(response, 'drain'), once(response, 'close')]);
const event = (message: object): string => frame({ jsonrpc: '2.0', ...message });

const TEXT = '{"type":"text","text":"x"}';
const TOO_LARGE = 'The server sent a message of more than';
const ENDED = 'The response ended before the answer';
const MISFIT = 'does not match the specification';

const zipped: FakeAnswer = (response) =>
  void response
    .writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' })
    .end(gzipSync(Buffer.alloc(BYTES * 2, ' ')));

describe('a client of a hostile server', () => {
  let client: MeasuredProcess;
  let fake: FakeMcpServer;
  beforeAll(async () => {
    await bundle({ client: 'test/load/values/client.ts' }, PROGRAM);
    [client] = await MeasuredProcess.start(join(PROGRAM, 'client.js'));
  });
  afterAll(async () => {
    await client.close();
    rmSync(PROGRAM, { recursive: true, force: true });
  });
  beforeEach(async () => void (fake = await FakeMcpServer.start()));
  afterEach(async () => {
    await order({ does: 'close' });
    await fake.close();
  });

  const order = (what: Order): Promise<Outcome> => client.ask<Outcome>(what);
  const open = (options: Partial<McpClientOptions> = {}): Promise<Outcome> =>
    order({ does: 'open', options: { url: fake.url, ...LIMITS, ...options } });

  /** Does something that costs little. */
  async function cheap(does: 'call' | 'list', outcome: string): Promise<void> {
    const measured: Outcome & Cost = await client.measured(() => order({ does }));
    expect(measured.outcome).toContain(outcome);
    const { cpuMs, mebibytes } = measured;
    expect({ cpuMs, mebibytes }).toSatisfy((cost: Cost) => cost.cpuMs < MOST.cpuMs && cost.mebibytes < MOST.mebibytes);
  }

  it.each<[what: string, answer: FakeAnswer, outcome: string]>([
    ['a result of too many values', raw(`"result":{"content":${repeated('1', BYTES / 3)}}`), TOO_LARGE],
    ['a result of values that do not fit', raw(`"result":{"content":${repeated('1', VALUES - 100)}}`), MISFIT],
    ['a large result that fits', raw(`"result":{"content":${repeated(TEXT, VALUES / 4)}}`), '"text":"x"'],
    [
      'an error of too many values',
      raw(`"error":{"code":1,"message":"x","data":${repeated('{}', VALUES)}}`),
      TOO_LARGE,
    ],
    ['an error of a long text', raw(`"error":{"code":1,"message":"${'x'.repeat(BYTES / 2)}"}`), 'xxx'],
    ['one long text', raw(`"result":{"content":"${'x'.repeat(BYTES)}"}`), TOO_LARGE],
    ['deep lists', raw(`"result":{"content":${'['.repeat(600)}${']'.repeat(600)}}`), 'more than 512 levels'],
    ['a body that grows when it is unpacked', zipped, TOO_LARGE],
    ['many small events', endless('event: x\ndata: 1\n\n', BYTES), ENDED],
    ['many events that are no messages', endless('data: 1\n\n', BYTES / 16), ENDED],
    ['one enormous event', endless(`data: ${'x'.repeat(1_000)}\n`, BYTES * 2), TOO_LARGE],
    ['an event of many empty lines', endless('data\n', BYTES), ENDED],
    ['an event that never ends', endless('x', BYTES * 2, 'data: '), TOO_LARGE],
    ['comments without end', endless(':\n\n', BYTES * 2), ENDED],
    ['one comment without end', endless('x', BYTES * 2, ':'), TOO_LARGE],
    ['an event id without end', endless('x', BYTES * 2, 'id: '), TOO_LARGE],
    [
      'many notifications',
      endless(event({ method: 'notifications/message', params: { level: 'info', data: 'x' } }), BYTES / 4),
      ENDED,
    ],
    [
      'notifications of many values that do not fit',
      endless(
        `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":${repeated('1', 20_000)}}}\n\n`,
        BYTES,
      ),
      ENDED,
    ],
    [
      'questions of many values that do not fit',
      endless(
        `data: {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":${repeated('1', 20_000)}}}}\n\n`,
        BYTES,
      ),
      ENDED,
    ],
  ])('C3: a call that is answered with %s ends, costs little, and the client goes on', async (_, answer, outcome) => {
    fake.begins().on({ rpc: 'tools/call' }, answer).on({ rpc: 'tools/call' }, result(DONE));
    await open();
    await cheap('call', outcome);
    expect(await order({ does: 'call' })).toEqual({ outcome: '{"content":[]}' });
  });

  it('C14: a call that is answered with thousands of questions ends, costs little, and the client goes on', async () => {
    const asks = event({
      id: 'q',
      method: 'elicitation/create',
      params: { message: 'x', requestedSchema: { type: 'object', properties: { a: { type: 'string' } } } },
    });
    fake.begins().on({ rpc: 'response' }, status(202), Infinity);
    fake.on({ rpc: 'tools/call' }, endless(asks, BYTES / 8)).on({ rpc: 'tools/call' }, result(DONE));
    await open();
    await cheap('call', ENDED);
    expect(await order({ does: 'call' })).toEqual({ outcome: '{"content":[]}' });
  });

  const tool = (at: number, more = ''): string => `{"name":"t${at}","inputSchema":{"type":"object"}${more}}`;
  const tools = (count: number, more = ''): string =>
    `"tools":[${Array.from({ length: count }, (_, at) => tool(at, more)).join()}]`;
  const PAGE = Math.floor(VALUES / 40);

  it.each<[what: string, page: (at: number) => string, outcome: string]>([
    ['too many tools', () => tools(VALUES), TOO_LARGE],
    ['many tools', () => tools(Math.floor(VALUES / 5)), String(Math.floor(VALUES / 5))],
    ['pages without end', (at) => `${tools(PAGE)},"nextCursor":"${at}"`, 'more than'],
    ['empty pages without end', (at) => `${tools(0)},"nextCursor":"${at}"`, 'exceeded listMaxPages (64)'],
    [
      'pages of long texts without end',
      (at) => `${tools(1, `,"description":"${'x'.repeat(BYTES / 20)}"`)},"nextCursor":"${at}"`,
      `more than ${BYTES} bytes`,
    ],
  ])('C3: a list with %s ends, costs little, and the client goes on', async (_, page, outcome) => {
    let at = 0;
    fake.begins().on({ rpc: 'tools/list' }, (...all) => raw(`"result":{${page(at++)}}`)(...all), Infinity);
    fake.on({ rpc: 'tools/call' }, result(DONE));
    await open();
    await cheap('list', outcome);
    expect(await order({ does: 'call' })).toEqual({ outcome: '{"content":[]}' });
  });

  it('C15: the first call after a list of many output schemas costs little', async () => {
    const schema = `,"outputSchema":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"number"}}}`;
    const named = `{"name":"tool","inputSchema":{"type":"object"}}`;
    const count = Math.floor(VALUES / 20);
    const list = `"result":{"tools":[${named},${Array.from({ length: count }, (_, at) => tool(at, schema)).join()}]}`;
    fake.begins().on({ rpc: 'tools/list' }, raw(list)).on({ rpc: 'tools/call' }, result(DONE));
    await open();
    await cheap('list', String(count + 1));
    await cheap('call', '{"content":[]}');
  });

  it('C3: an answer to "initialize" of many values that do not fit ends the first use, and the client connects again', async () => {
    fake.on({ rpc: 'initialize' }, raw(`"result":{"capabilities":${repeated('1', VALUES - 100)}}`));
    await open();
    await cheap('list', MISFIT);
    fake.on({ rpc: 'initialize' }, initialized(null)).on({ rpc: 'notifications/initialized' }, status(202));
    fake.on({ method: 'GET' }, status(405)).on({ rpc: 'tools/list' }, result({ tools: [] }));
    expect(await order({ does: 'list' })).toEqual({ outcome: '0' });
  });

  const task = `"resultType":"complete","taskId":"a","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z","ttlMs":1000`;
  const QUESTION = `{"method":"elicitation/create","params":{"message":"x","requestedSchema":{"type":"object","properties":{}}}}`;
  const questions = (count: number, question = QUESTION): string =>
    `{${Array.from({ length: count }, (_, at) => `"q${at}":${question}`).join()}}`;

  it.each<[what: string, status: string, outcome: string]>([
    ['a result of values that do not fit', `"completed","result":{"content":${repeated('1', VALUES - 100)}}`, MISFIT],
    ['too many values', `"completed","result":{"content":${repeated('1', VALUES)}}`, 'values ("maxMessageValues")'],
    [
      'questions of too many values',
      `"input_required","inputRequests":${questions(20_000, '1')}`,
      'questions have more',
    ],
  ])('C3: a task that ends with %s costs little, and the client goes on', async (_, ends, outcome) => {
    fake.on({ rpc: 'server/discover' }, result(DISCOVERED));
    fake.on(
      { rpc: 'tools/call' },
      raw(`"result":{${task.replace('complete', 'task')},"status":"working","pollIntervalMs":20}`),
    );
    fake.on({ rpc: 'tasks/get' }, raw(`"result":{${task},"status":${ends}}`), Infinity);
    fake.on({ rpc: 'tasks/cancel' }, result({ resultType: 'complete' }), Infinity);
    fake.on({ rpc: 'tools/call' }, result({ resultType: 'complete', ...DONE }));
    await open({ client: MODERN });
    await cheap('call', outcome);
    expect((await order({ does: 'call' })).outcome).toContain('"content":[]');
  });

  it.each<[what: string, asks: string, outcome: string]>([
    ['too many values', questions(20_000, '1'), 'questions have more'],
    ['a thousand questions that do not fit', questions(1_000, '1'), 'nvalid'],
    ['one question without end', questions(1), 'ound'],
  ])(
    'C3: a call that is answered with %s in a result ends, costs little, and the client goes on',
    async (_, asks, outcome) => {
      fake.on({ rpc: 'server/discover' }, result(DISCOVERED));
      const required = raw(`"result":{"resultType":"input_required","requestState":"a","inputRequests":${asks}}`);
      let answered = false;
      fake.on(
        { rpc: 'tools/call' },
        (...all) => (answered ? result({ resultType: 'complete', ...DONE }) : required)(...all),
        Infinity,
      );
      await open({ client: MODERN });
      await cheap('call', outcome);
      answered = true;
      expect((await order({ does: 'call' })).outcome).toContain('"content":[]');
    },
  );
});
