import { McpHttpStatusError, McpHttpUnauthorizedError, McpUnexpectedContentError } from 'nestjs-mcp-streamable/client';
import { describe, expect, it } from 'vitest';
import {
  answerFrame,
  frame,
  held,
  initialized,
  json,
  progress,
  result,
  sse,
  status,
} from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes, INITIALIZE } from './transports.js';

const DONE = { content: [] };

describe('messages that our client transport sends', () => {
  const { server, transport } = fakes();

  it('C1: each message is a POST of its own, with session id and version, and headers from a fresh callback', async () => {
    const fake = (await server()).begins();
    const first = held();
    const second = held();
    fake.on({ rpc: 'tools/call' }, first.answer).on({ rpc: 'tools/call' }, second.answer);
    let calls = 0;
    const recorded = transport(fake.url, {
      headers: () => Promise.resolve({ authorization: `Bearer ${++calls}`, 'x-mine': 'a', 'mcp-session-id': 'mine' }),
    });
    await recorded.initialize();
    const [one, two] = [recorded.call(1), recorded.call(2)];
    // Concurrent, and answered the other way round.
    const [a, b] = [await first.arrived, await second.arrived];
    await result(DONE)(b, second.request());
    await two;
    await result(DONE)(a, first.request());
    await one;
    expect(recorded.answers(1)).toHaveLength(1);
    expect(recorded.answers(2)).toHaveLength(1);
    const { headers } = first.request();
    expect(headers).toMatchObject({
      'mcp-session-id': 's1',
      'mcp-protocol-version': '2025-11-25',
      'x-mine': 'a',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    });
    const credentials = fake.requests.map((request) => request.headers.authorization);
    expect(new Set(credentials).size).toBe(fake.requests.length);
    expect(fake.requests[0]!.headers).not.toHaveProperty('mcp-session-id');
    expect(fake.requests[0]!.headers).not.toHaveProperty('mcp-protocol-version');
  });

  it('"requestMeta" adds to "_meta", keeps the values of the caller, and is the same when a request is repeated', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(503)).on({ rpc: 'tools/call' }, result(DONE));
    let made = 0;
    const requestMeta = ({ method }: { method: string }) =>
      method === 'initialize' ? {} : { made: ++made, mine: 'no' };
    const recorded = await transport(fake.url, { requestMeta }).initialize();
    const answered = recorded.call(1, 'tool', { _meta: { mine: 'yes' } });
    await eventually(() => expect(recorded.reconnects).toHaveLength(1));
    await recorded.clock.advance(60_000);
    await answered;
    const sent = fake.requests.flatMap(({ body }) =>
      body ? [body as { method: string; params?: { _meta?: object } }] : [],
    );
    expect(sent.filter(({ method }) => method === 'tools/call').map(({ params }) => params!._meta)).toEqual([
      { made: 1, mine: 'yes' },
      { made: 1, mine: 'yes' },
    ]);
    expect(sent[0]!.params).not.toHaveProperty('_meta');
  });

  it('C1: messages that are sent before the session is known wait for it, and answers to the server never wait', async () => {
    const fake = await server();
    const init = held();
    fake.on({ rpc: 'initialize' }, init.answer);
    fake.on({ rpc: 'response', session: 's1' }, status(202));
    fake.on({ rpc: 'tools/call', session: 's1' }, result(DONE));
    fake.on({ rpc: 'notifications/roots/list_changed', session: 's1' }, status(202));
    const recorded = transport(fake.url);
    await recorded.transport.start();
    const initialize = recorded.transport.send(INITIALIZE);
    const call = recorded.call(1);
    const note = recorded.transport.send({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' });
    const response = await init.arrived;
    response.writeHead(200, { 'content-type': 'text/event-stream', 'mcp-session-id': 's1' });
    response.write(frame({ jsonrpc: '2.0', id: 'p', method: 'ping' }));
    await eventually(() => expect(recorded.messages).toHaveLength(1));
    await recorded.transport.send({ jsonrpc: '2.0', id: 'p', result: {} });
    expect(fake.requests).toHaveLength(2);
    const serverInfo = { name: 'fake', version: '1' };
    const value = { protocolVersion: '2025-06-18', capabilities: {}, serverInfo };
    response.end(frame({ jsonrpc: '2.0', id: 'init', result: value }));
    await Promise.all([initialize, call, note]);
    expect(fake.seen({ rpc: 'tools/call' })[0]!.headers['mcp-protocol-version']).toBe('2025-06-18');
  });

  it('C1: messages that wait for a session fail when it cannot be started', async () => {
    const fake = (await server()).on({ rpc: 'initialize' }, status(500));
    const recorded = transport(fake.url);
    await recorded.transport.start();
    const initialize = recorded.transport.send(INITIALIZE);
    const call = recorded.call(1);
    await expect(initialize).rejects.toBeInstanceOf(McpHttpStatusError);
    await expect(call).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    expect(recorded.states).toEqual(['new', 'started', 'initializing', 'started']);
  });

  it('C2: another session id than that of the initialize answer is an error of that call', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, result(DONE, { 'mcp-session-id': 's2' }));
    fake.on({ rpc: 'tools/call', session: 's1' }, result(DONE, { 'mcp-session-id': 's1' }));
    const recorded = await transport(fake.url).initialize();
    expect(recorded.transport.sessionId).toBe('s1');
    await expect(recorded.call(1)).rejects.toMatchObject({ code: 'SESSION_CHANGED' });
    expect(recorded.answers(1)).toEqual([]);
    await recorded.call(2);
    expect(recorded.transport.sessionId).toBe('s1');
  });

  it('C2: a session id that no header could carry back starts no session', async () => {
    const fake = (await server()).on({ rpc: 'initialize' }, initialized('s\u00e9'));
    const recorded = transport(fake.url);
    await recorded.transport.start();
    await expect(recorded.transport.send(INITIALIZE)).rejects.toMatchObject({ code: 'SESSION_CHANGED' });
    expect(recorded.transport.state.is).toBe('started');
  });

  it('C2: a server without sessions is served without', async () => {
    const fake = (await server()).begins(null).on({ rpc: 'tools/call', session: null }, result(DONE));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    expect(recorded.transport.state).toEqual({ is: 'live', sessionId: undefined, protocolVersion: '2025-11-25' });
  });
});

describe('messages that our client transport receives', () => {
  const { server, transport, client } = fakes();

  it.each([
    ['application/json', 'application/json'],
    ['application/json with parameters', 'Application/JSON; charset=utf-8'],
  ])('C3: %s', async (_, type) => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, result(DONE, { 'content-type': type }));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    expect(recorded.answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, result: DONE }]);
  });

  const answer = JSON.stringify({ jsonrpc: '2.0', id: 1, result: DONE });
  const [head, tail] = [answer.slice(0, 17), answer.slice(17)];
  it.each([
    ['a byte order mark', [`\uFEFFdata: ${answer}\n\n`]],
    ['CR', [`data: ${answer}\r\r`]],
    ['CR LF, cut in between', [`data: ${answer}\r`, `\n\r`, `\n`]],
    ['several data lines, one without content', [`data: ${head}\ndata\ndata:${tail}\n\n`]],
    ['comments and unknown fields', [`: hello\n\nfoo: bar\ndata: ${answer}\n\n`]],
    [
      'a character cut in two',
      [`data: ${JSON.stringify({ jsonrpc: '2.0', id: 1, result: { content: [], é: '€😀' } })}\n\n`],
    ],
    ['an unterminated event at the end', [`data: ${answer}\n\ndata: {"jsonrpc":"2.0","method":"lost"}`]],
    ['events of other types', [`event: other\ndata: x\n\nevent: message\ndata: ${answer}\n\n`]],
  ])('C3: an event stream with %s', async (_, chunks) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse(chunks, 'end', { 'content-type': 'Text/Event-Stream;charset=UTF-8' }));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    expect(recorded.answers(1)).toHaveLength(1);
    expect(recorded.messages).toHaveLength(2);
    expect(recorded.errors).toEqual([]);
  });

  it('C3: a response that is neither JSON nor an event stream is a typed error', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(200, { 'content-type': 'text/html' }, '<html>log in</html>'));
    fake.on({ rpc: 'tools/call' }, status(200, { 'content-type': 'application/json' }, '<html>'));
    fake.on({ rpc: 'tools/call' }, status(202));
    const recorded = await transport(fake.url).initialize();
    await expect(recorded.call(1)).rejects.toThrow('"text/html"');
    await expect(recorded.call(2)).rejects.toBeInstanceOf(McpUnexpectedContentError);
    await expect(recorded.call(3)).rejects.toBeInstanceOf(McpUnexpectedContentError);
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C3: an event that is no message is reported, and the next one is read', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse(['data: {oops\n\n', answerFrame(DONE)]));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    expect(recorded.errors).toHaveLength(1);
  });

  it.each([
    ['as JSON', json({ jsonrpc: '2.0', id: 1, result: { text: 'x'.repeat(2_000) } })],
    ['as events', sse([`data: ${'x'.repeat(1_500)}`, 'x'.repeat(1_500)], 'open')],
  ])('C3: a message above the limit is not read, %s', async (_, answered) => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, answered);
    const recorded = await transport(fake.url, { maxMessageBytes: 1_000 }).initialize();
    await expect(recorded.call(1)).rejects.toMatchObject({ code: 'MESSAGE_TOO_LARGE' });
    await fake.quiet();
    expect(recorded.transport.state.is).toBe('live');
  });

  const many = (count: number): number[] => Array.from({ length: count }, () => 1);

  it.each([
    ['as JSON', result({ content: many(6_000) })],
    ['as events', sse([answerFrame({ content: many(6_000) })], 'open')],
  ])('C3: a message of more than "maxMessageValues" is not read, %s', async (_, answered) => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, answered);
    const recorded = await transport(fake.url, { maxMessageValues: 5_000 }).initialize();
    const refused = { code: 'MESSAGE_TOO_LARGE', message: expect.stringContaining('more than 5000 values') };
    await expect(recorded.call(1)).rejects.toMatchObject(refused);
    await fake.quiet();
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C3: a result of many values that do not fit is an error, and a notification of such is dropped', async () => {
    const note = { jsonrpc: '2.0', method: 'notifications/message', params: { level: many(2_000), data: 1 } };
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, sse([frame(note), answerFrame({ content: many(2_000) })]));
    fake.on({ rpc: 'tools/call' }, result({ resultType: 'input_required', inputRequests: { q: many(10_001) } }));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    await recorded.call(2);
    const message = expect.stringContaining('its questions have more than 10000 values');
    expect(recorded.answers(2)).toMatchObject([{ error: { code: -32603, message } }]);
    expect(recorded.answers(1)).toMatchObject([
      { error: { code: -32603, message: expect.stringContaining('content.0') } },
    ]);
    expect(recorded.errors).toMatchObject([{ message: expect.stringContaining('The message was dropped') }]);
    expect(recorded.messages).toHaveLength(3);
  });

  it.each([
    ['values', { maxMessageValues: 5_000 }, 'more than 5000 values ("maxMessageValues")'],
    ['bytes', { maxMessageBytes: 60_000 }, 'more than 60000 bytes ("maxMessageBytes")'],
  ])('C3: the pages of a list count as one message, by their %s', async (_, options, message) => {
    const page = (nextCursor?: string) => ({
      tools: Array.from({ length: 500 }, (_each, at) => ({ name: `tool${at}`, inputSchema: { type: 'object' } })),
      ...(nextCursor !== undefined && { nextCursor }),
    });
    const fake = (await server()).begins();
    const { client: official, recorded } = client(fake.url, options);
    await official.connect(recorded.transport);
    // Two lists at a time: cursors tell them apart.
    fake.on({ rpc: 'tools/list' }, result(page('a')), 2).on({ rpc: 'tools/list' }, result(page()), 2);
    const lists = await Promise.all([official.listTools(), official.listTools()]);
    expect(lists.map(({ tools }) => tools.length)).toEqual([1_000, 1_000]);
    // Pages that never end.
    for (const cursor of ['x', 'y'.repeat(1_000), 'z'.repeat(1_000)])
      fake.on({ rpc: 'tools/list' }, result(page(cursor)));
    await expect(official.listTools(undefined, { cacheMode: 'bypass' })).rejects.toThrow(message);
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C9: an HTTP error with a JSON-RPC body is the error of that call', async () => {
    const error = { code: -32602, message: 'no such tool' };
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, json({ jsonrpc: '2.0', id: 1, error }, 400));
    fake.on({ rpc: 'tools/call' }, json({ jsonrpc: '2.0', id: null, error }, 422));
    fake.on({ rpc: 'tools/call' }, json({ jsonrpc: '2.0', id: 'another', error }, 400));
    fake.on({ rpc: 'tools/call' }, status(400, {}, 'bad'));
    const recorded = await transport(fake.url).initialize();
    await recorded.call(1);
    await recorded.call(2);
    expect(recorded.answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, error }]);
    expect(recorded.answers(2)).toEqual([{ jsonrpc: '2.0', id: 2, error }]);
    await expect(recorded.call(3)).rejects.toMatchObject({ name: 'McpHttpStatusError', status: 400 });
    await expect(recorded.call(4)).rejects.toThrow('"bad"');
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C12: messages of one chunk are handed over so that progress is not overtaken by the result', async () => {
    const fake = (await server()).begins();
    fake.on(
      { rpc: 'tools/call' },
      sse([
        (request) => {
          const token = request.body.params._meta.progressToken as number;
          const all = [1, 2, 3, 4, 5].map((n) => frame(progress(token, n), `a_${n}`)).join('');
          return all + answerFrame(DONE, 'a_6')(request);
        },
      ]),
    );
    const { client: official, recorded } = client(fake.url);
    await official.connect(recorded.transport);
    const seen: number[] = [];
    await official.callTool({ name: 'tool' }, { onprogress: (note) => seen.push(note.progress) });
    expect(seen).toEqual([1, 2, 3, 4, 5]);
  });
});

describe('credentials', () => {
  const { server, transport } = fakes();
  const CHALLENGE = 'Bearer realm="x", error="invalid_token", scope="a b", resource_metadata="https://h/.well-known/o"';

  it.each([401, 403])('C8: %i is typed, with the parameters of WWW-Authenticate', async (code) => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(code, { 'www-authenticate': CHALLENGE }, 'no'));
    const recorded = await transport(fake.url).initialize();
    const error = await recorded.call(1).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(McpHttpUnauthorizedError);
    expect(error).toMatchObject({
      status: code,
      challenge: {
        scheme: 'Bearer',
        scope: 'a b',
        error: 'invalid_token',
        resourceMetadata: 'https://h/.well-known/o',
      },
    });
    expect(recorded.transport.state.is).toBe('live');
  });

  it('C8: the hook refreshes, and the request is sent once more', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(401), 3).on({ rpc: 'tools/call' }, result(DONE), 3);
    let token = 'old';
    let refreshed = 0;
    const recorded = await transport(fake.url, {
      headers: () => ({ authorization: `Bearer ${token}` }),
      onUnauthorized: async () => {
        refreshed++;
        await eventually(() => expect(fake.seen({ rpc: 'tools/call' })).toHaveLength(3));
        token = 'new';
      },
    }).initialize();
    await Promise.all([recorded.call(1), recorded.call(2), recorded.call(3)]);
    // One refresh for all that were refused together.
    expect(refreshed).toBe(1);
    const sent = fake.seen({ rpc: 'tools/call' }).map(({ headers }) => headers.authorization);
    expect(sent).toEqual([...Array(3).fill('Bearer old'), ...Array(3).fill('Bearer new')]);
  });

  it('C8: a request with replaced credentials is sent again without calling the hook', async () => {
    const fake = (await server()).begins();
    const slow = held();
    fake.on({ rpc: 'tools/call' }, slow.answer).on({ rpc: 'tools/call' }, status(401));
    fake.on({ rpc: 'tools/call' }, result(DONE), 2);
    let refreshed = 0;
    const recorded = await transport(fake.url, { onUnauthorized: () => void refreshed++ }).initialize();
    const first = recorded.call(1);
    const refused = await slow.arrived;
    await recorded.call(2);
    refused.writeHead(401).end();
    await first;
    expect(refreshed).toBe(1);
  });

  it('C8: a request is sent again once only, and an error of the hook fails the call', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, status(401), 3);
    let mayRefresh = true;
    const recorded = await transport(fake.url, {
      onUnauthorized: () => {
        if (!mayRefresh) throw new Error('log in again');
      },
    }).initialize();
    await expect(recorded.call(1)).rejects.toBeInstanceOf(McpHttpUnauthorizedError);
    mayRefresh = false;
    await expect(recorded.call(2)).rejects.toThrow('log in again');
  });

  it('redirects are followed within the origin only', async () => {
    const other = await server();
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call' }, status(307, { location: '/mcp/' })).on({ rpc: 'tools/call' }, result(DONE));
    fake.on({ rpc: 'tools/call' }, status(308, { location: other.url }));
    fake.on({ rpc: 'tools/call' }, status(302, { location: '/mcp/' }));
    const recorded = await transport(fake.url, { headers: { 'x-secret': 's' } }).initialize();
    await recorded.call(1);
    await expect(recorded.call(2)).rejects.toMatchObject({ status: 308 });
    await expect(recorded.call(3)).rejects.toMatchObject({ status: 302 });
    expect(other.requests).toEqual([]);
  });
});
