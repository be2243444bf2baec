import { Client } from '@modelcontextprotocol/client';
import { McpStreamLostError, type StreamableClientTransportOptions } from 'nestjs-mcp-streamable/client';
import { describe, expect, it } from 'vitest';
import {
  answerFrame,
  type FakeAnswer,
  type FakeMcpServer,
  frame,
  held,
  json,
  progress,
  result,
  sse,
  status,
} from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes, type Recorded } from './transports.js';

const VERSION = '2026-07-28';
const META = {
  'io.modelcontextprotocol/protocolVersion': VERSION,
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
const DONE = { resultType: 'complete', content: [] };
const DISCOVERED = {
  resultType: 'complete',
  supportedVersions: [VERSION],
  capabilities: { tools: { listChanged: true } },
  ttlMs: 0,
  cacheScope: 'private',
  _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'fake', version: '1.0.0' } },
};

describe('2026-07-28', () => {
  const { server, transport, client } = fakes();

  const request = (id: string | number, method: string, params: object = {}) => ({
    jsonrpc: '2.0' as const,
    id,
    method,
    params: { _meta: META, ...params },
  });
  const start = async (
    options?: StreamableClientTransportOptions,
  ): Promise<{ fake: FakeMcpServer; recorded: Recorded }> => {
    const fake = await server();
    const recorded = transport(fake.url, options);
    await recorded.transport.start();
    recorded.transport.setProtocolVersion(VERSION);
    return { fake, recorded };
  };

  it.each([
    ['tools/call', { name: 'find' }, 'find'],
    ['prompts/get', { name: 'hello there' }, 'hello there'],
    ['resources/read', { uri: 'file:///a%20b' }, 'file:///a%20b'],
    ['tools/call', { name: 'größe' }, '=?base64?Z3LDtsOfZQ==?='],
    ['tools/call', { name: ' padded ' }, '=?base64?IHBhZGRlZCA=?='],
    ['tools/call', { name: '' }, '=?base64??='],
    ['tools/call', { name: '=?base64?eA==?=' }, '=?base64?PT9iYXNlNjQ/ZUE9PT89?='],
    ['tools/call', { name: 'a\nb' }, '=?base64?YQpi?='],
    ['tools/list', {}, undefined],
  ])('C13: %s %o names itself in its headers', async (method, params, name) => {
    const { fake, recorded } = await start();
    fake.on({ rpc: method }, result(DONE));
    await recorded.transport.send(request(1, method, params));
    const { headers } = fake.requests[0]!;
    expect(headers).toMatchObject({ 'mcp-protocol-version': VERSION, 'mcp-method': method });
    expect(headers['mcp-name']).toBe(name);
  });

  it('C13: headers of the send options are sent as they are, but none of the protocol itself', async () => {
    const { fake, recorded } = await start({ headers: { authorization: 'Bearer a' } });
    fake.on({ rpc: 'tools/call' }, result(DONE));
    const headers = {
      'Mcp-Param-Region': '=?base64?w6k=?=',
      'Mcp-Method': 'ping',
      Authorization: 'no',
      'Mcp-Session-Id': 'x',
    };
    await recorded.transport.send(request(1, 'tools/call', { name: 'find' }), { headers });
    expect(fake.requests[0]!.headers).toMatchObject({
      'mcp-param-region': '=?base64?w6k=?=',
      'mcp-method': 'tools/call',
      authorization: 'Bearer a',
    });
    expect(fake.requests[0]!.headers).not.toHaveProperty('mcp-session-id');
  });

  it('C13: the revision of a request is that of its _meta', async () => {
    const { fake, recorded } = await start();
    fake.on({ rpc: 'server/discover' }, result(DISCOVERED));
    const meta = { ...META, 'io.modelcontextprotocol/protocolVersion': '2099-01-01' };
    await recorded.transport.send(request(1, 'server/discover', { _meta: meta }));
    expect(fake.requests[0]!.headers['mcp-protocol-version']).toBe('2099-01-01');
  });

  it('C13: no session, no GET: a session id in an answer is not for us', async () => {
    const { fake, recorded } = await start();
    fake.on({ session: null }, result(DONE, { 'mcp-session-id': 's1' })).on({ session: null }, result(DONE));
    await recorded.transport.send(request(1, 'tools/call', { name: 'find' }));
    await recorded.transport.send(request(2, 'tools/call', { name: 'find' }));
    expect(recorded.transport.sessionId).toBeUndefined();
    expect(recorded.transport.state.is).toBe('started');
    expect(fake.requests.map(({ method }) => method)).toEqual(['POST', 'POST']);
  });

  it.each(['end', 'cut'] as const)('C13: no resumption, with event ids or without, after an %s', async (how) => {
    const { fake, recorded } = await start();
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], how));
    const failure = recorded.transport.send(request(1, 'tools/call', { name: 'find' }));
    await expect(failure).rejects.toBeInstanceOf(McpStreamLostError);
    expect(fake.requests).toHaveLength(1);
  });

  it('C13: what may run twice is repeated, without a cancellation: the broken response was one', async () => {
    const { fake, recorded } = await start({ replay: 'always' });
    fake.on({ rpc: 'tools/call' }, sse([frame(progress('t', 1))], 'cut')).on({ rpc: 'tools/call' }, status(503));
    fake.on({ rpc: 'tools/call' }, sse([answerFrame(DONE)]));
    await recorded.through(recorded.transport.send(request(1, 'tools/call', { name: 'find' })));
    expect(recorded.answers(1)).toHaveLength(1);
    expect(fake.requests).toHaveLength(3);
  });

  it.each(['before the head', 'after the head'])('C13: an abort closes the response, %s', async (when) => {
    const { fake, recorded } = await start();
    const open = held();
    fake.on({ rpc: 'tools/call' }, open.answer);
    const controller = new AbortController();
    let ended = false;
    const call = recorded.transport.send(request(1, 'tools/call', { name: 'find' }), {
      requestSignal: controller.signal,
      onRequestStreamEnd: () => (ended = true),
    });
    call.catch(() => {});
    const response = await open.arrived;
    if (when === 'after the head') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame(progress('t', 1)));
      await eventually(() => expect(recorded.messages).toHaveLength(1));
    }
    controller.abort(new Error('enough'));
    await expect(call).rejects.toThrow('enough');
    await fake.quiet();
    expect(ended).toBe(false);
    expect(recorded.errors).toEqual([]);
  });

  it('C13: errors with a JSON-RPC body are the error of that call, 404 too', async () => {
    const { fake, recorded } = await start();
    const error = { code: -32601, message: 'no such method' };
    fake.on({ rpc: 'x/y' }, json({ jsonrpc: '2.0', id: 1, error }, 404));
    await recorded.transport.send(request(1, 'x/y'));
    expect(recorded.answers(1)).toEqual([{ jsonrpc: '2.0', id: 1, error }]);
  });

  it('C13: notifications carry the negotiated revision', async () => {
    const { fake, recorded } = await start();
    fake.on({ rpc: 'notifications/cancelled' }, status(202));
    await recorded.transport.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'gone' } });
    expect(fake.requests[0]!.headers).toMatchObject({
      'mcp-protocol-version': VERSION,
      'mcp-method': 'notifications/cancelled',
    });
  });

  describe('with the official client', () => {
    const listen: FakeAnswer = (response, { body }) => {
      const meta = { _meta: { 'io.modelcontextprotocol/subscriptionId': body.id } };
      const acknowledged = { notifications: { toolsListChanged: true }, ...meta };
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(
        frame({ jsonrpc: '2.0', method: 'notifications/subscriptions/acknowledged', params: acknowledged }),
      );
      response.write(frame({ jsonrpc: '2.0', method: 'notifications/tools/list_changed', params: meta }));
    };
    const connect = async (fake: FakeMcpServer) => {
      const { recorded } = client(fake.url);
      const official = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
      fake.on({ rpc: 'server/discover' }, result(DISCOVERED));
      await official.connect(recorded.transport);
      return { official, recorded };
    };

    it('C13: discovers, calls, and closes the response when a call is cancelled', async () => {
      const fake = await server();
      const { official } = await connect(fake);
      expect(official.getNegotiatedProtocolVersion()).toBe(VERSION);
      fake.on({ rpc: 'tools/call' }, result(DONE));
      expect(await official.callTool({ name: 'find' })).toMatchObject({ content: [] });
      fake.on({ rpc: 'tools/call' }, () => {});
      const controller = new AbortController();
      const call = official.callTool({ name: 'find' }, { signal: controller.signal });
      call.catch(() => {});
      await fake.arrived({ rpc: 'tools/call' }, 2);
      controller.abort('enough');
      await expect(call).rejects.toThrow('enough');
      await fake.quiet();
    });

    it('C13: listens, hears of the end of the stream, and closes it', async () => {
      const fake = await server();
      const { official } = await connect(fake);
      let changes = 0;
      official.setNotificationHandler('notifications/tools/list_changed', () => void changes++);
      const open: Parameters<FakeAnswer>[0][] = [];
      fake.on(
        { rpc: 'subscriptions/listen' },
        (response, seen) => {
          open.push(response);
          return listen(response, seen);
        },
        2,
      );
      fake.on({ rpc: 'notifications/cancelled' }, status(202));
      const first = await official.listen({ toolsListChanged: true });
      await eventually(() => expect(changes).toBe(1));
      open[0]!.end();
      expect(await first.closed).toBe('remote');
      const second = await official.listen({ toolsListChanged: true });
      await second.close();
      expect(await second.closed).toBe('local');
      await fake.quiet();
    });

    it.each([
      [
        'an error with a JSON-RPC body',
        json({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'no session' } }, 400),
      ],
      ['404 without', status(404)],
      ['405', status(405)],
    ])('C13: falls back to 2025 when the probe is answered with %s', async (_, answer) => {
      const fake = (await server()).on({ rpc: 'server/discover' }, answer).begins();
      const { recorded } = client(fake.url);
      const official = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
      await official.connect(recorded.transport);
      expect(official.getNegotiatedProtocolVersion()).toBe('2025-11-25');
      expect(fake.seen({ rpc: 'initialize' })[0]!.headers).not.toHaveProperty('mcp-protocol-version');
      expect(fake.seen({ rpc: 'initialize' })[0]!.headers).not.toHaveProperty('mcp-method');
      await fake.arrived({ method: 'GET' });
    });

    it.each([
      [401, 'UnauthorizedError'],
      [500, 'SdkHttpError'],
    ])('C13: a probe that is answered %i is no sign of an era', async (code, name) => {
      const fake = (await server()).on({ rpc: 'server/discover' }, status(code));
      const { recorded } = client(fake.url);
      const official = new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
      await expect(official.connect(recorded.transport)).rejects.toMatchObject({ name, status: code });
      expect(fake.requests).toHaveLength(1);
    });
  });
});
