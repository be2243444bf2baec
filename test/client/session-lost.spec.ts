import { McpSessionLostError } from 'nestjs-mcp-streamable/client';
import { describe, expect, it } from 'vitest';
import { frame, held, initialized, progress, result, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes } from './transports.js';

const DONE = { content: [] };

describe('a lost session', () => {
  const { server, transport } = fakes();

  it('C7: 404 on a live session is typed, and fails everything of the session at once', async () => {
    const fake = (await server()).begins();
    const open = held();
    fake.on({ rpc: 'tools/call' }, open.answer).on({ rpc: 'tools/call' }, status(404));
    const recorded = await transport(fake.url).initialize();
    const first = recorded.call(1);
    await open.arrived;
    await expect(recorded.call(2)).rejects.toMatchObject({ code: 'SESSION_LOST', sessionId: 's1', mayHaveRun: false });
    await expect(first).rejects.toMatchObject({ code: 'SESSION_LOST', mayHaveRun: true });
    expect(recorded.transport.state).toEqual({ is: 'lost', lostSessionId: 's1' });
    // Without asking the server again.
    await expect(recorded.call(3)).rejects.toBeInstanceOf(McpSessionLostError);
    expect(fake.seen({ rpc: 'tools/call' })).toHaveLength(2);
    expect(recorded.transport.sessionId).toBeUndefined();
  });

  it('C7: 404 without a session is no lost session', async () => {
    const fake = (await server()).on({ rpc: 'tools/call' }, status(404));
    const recorded = transport(fake.url);
    await recorded.transport.start();
    await expect(recorded.call(1)).rejects.toMatchObject({ name: 'McpHttpStatusError', status: 404 });
    expect(recorded.transport.state.is).toBe('started');
  });

  it('C7: initialised anew by itself; what did not run is repeated, what may have is not', async () => {
    const fake = (await server()).begins();
    const streaming = held();
    fake.on({ rpc: 'tools/call', session: 's1' }, streaming.answer);
    fake.on({ rpc: 'tools/call', session: 's1' }, status(404));
    fake.begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE), 2);
    const recorded = await transport(fake.url, { recover: true }).initialize();
    const interrupted = recorded.call('running');
    const response = await streaming.arrived;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame(progress('t', 1), 'a_1'));
    await eventually(() => expect(recorded.messages).toHaveLength(2));
    interrupted.catch(() => {});
    await recorded.call(1);
    await expect(interrupted).rejects.toMatchObject({ code: 'SESSION_LOST', mayHaveRun: true });
    await recorded.call(2);
    expect(recorded.transport.sessionId).toBe('s2');
    await eventually(() =>
      expect(recorded.recoveries).toEqual([{ outcome: 'recovered', lostSessionId: 's1', sessionId: 's2' }]),
    );
    expect(recorded.states).toEqual(['new', 'started', 'initializing', 'live', 'recovering', 'live']);
    // The client has seen one initialize answer, and none of a request it did not make.
    expect(
      recorded.messages.filter((message) => !('method' in message)).map((message) => 'id' in message && message.id),
    ).toEqual(['init', 1, 2]);
    const [first, second] = fake.seen({ rpc: 'initialize' });
    expect(second!.body.params).toEqual(first!.body.params);
    expect(second!.headers).not.toHaveProperty('mcp-session-id');
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it('C7: one recovery for all who find out together', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call', session: 's1' }, status(404), 5);
    const init = held();
    fake.on({ rpc: 'initialize' }, init.answer).on({ rpc: 'notifications/initialized', session: 's2' }, status(202));
    fake.on({ method: 'GET', session: 's2' }, status(405)).on({ rpc: 'tools/call', session: 's2' }, result(DONE), 6);
    const recorded = await transport(fake.url, { recover: true }).initialize();
    const calls = [1, 2, 3, 4, 5].map((id) => recorded.call(id));
    const response = await init.arrived;
    await fake.arrived({ rpc: 'tools/call', session: 's1' }, 5);
    const late = recorded.call(6);
    await initialized('s2')(response, init.request());
    await Promise.all([...calls, late]);
    expect(fake.seen({ rpc: 'initialize' })).toHaveLength(2);
    expect(recorded.recoveries).toMatchObject([{ outcome: 'recovered', sessionId: 's2' }]);
    for (const id of [1, 2, 3, 4, 5, 6]) expect(recorded.answers(id)).toHaveLength(1);
  });

  it('C7: a response of the old session is not resumed in the new one', async () => {
    const fake = (await server()).begins();
    const slow = held();
    fake.on({ rpc: 'tools/call', session: 's1' }, slow.answer);
    fake.on({ rpc: 'tools/call', session: 's1' }, status(404)).begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE));
    const recorded = await transport(fake.url, { recover: true }).initialize();
    const first = recorded.call(1);
    const response = await slow.arrived;
    await recorded.call(2);
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(frame(progress('t', 1), 'a_1'));
    await expect(recorded.through(first)).rejects.toMatchObject({
      code: 'SESSION_LOST',
      sessionId: 's1',
      mayHaveRun: true,
    });
    expect(recorded.transport.state).toMatchObject({ is: 'live', sessionId: 's2' });
    expect(fake.seen({ lastEventId: 'a_1' })).toEqual([]);
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it('C7: what may run twice is repeated in the new session', async () => {
    const fake = (await server()).begins();
    fake.on({ rpc: 'tools/call', session: 's1' }, sse([frame(progress('t', 1), 'a_1')], 'cut'));
    fake.on({ method: 'GET', lastEventId: 'a_1' }, status(404)).begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE));
    const recorded = await transport(fake.url, { recover: true, replay: 'always' }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.answers(1)).toHaveLength(1);
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it('C7: a server that refuses ends the recovery: lost', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call', session: 's1' }, status(404));
    fake.on({ rpc: 'initialize' }, status(403));
    const recorded = await transport(fake.url, { recover: true }).initialize();
    await expect(recorded.call(1)).rejects.toMatchObject({ code: 'SESSION_LOST', sessionId: 's1' });
    expect(recorded.recoveries).toMatchObject([{ outcome: 'failed', lostSessionId: 's1' }]);
    expect(recorded.transport.state.is).toBe('lost');
    await expect(recorded.call(2)).rejects.toBeInstanceOf(McpSessionLostError);
  });

  it('C7: so does one that has become another revision', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call', session: 's1' }, status(404));
    fake.on({ rpc: 'initialize' }, initialized('s2', '2025-03-26'));
    const recorded = await transport(fake.url, { recover: true }).initialize();
    await expect(recorded.call(1)).rejects.toThrow('2025-03-26');
    expect(recorded.transport.state.is).toBe('lost');
  });

  it('C7: passing faults of the recovery are ridden out', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call', session: 's1' }, status(404));
    fake.on({ rpc: 'initialize' }, status(503)).on({ rpc: 'initialize' }, status(502)).begins('s2');
    fake.on({ rpc: 'tools/call', session: 's2' }, result(DONE));
    const recorded = await transport(fake.url, { recover: true }).initialize();
    await recorded.through(recorded.call(1));
    expect(recorded.reconnects.map(({ kind }) => kind)).toEqual(['recover', 'recover']);
    await fake.arrived({ method: 'GET', session: 's2' });
  });

  it('C7: a standalone stream that was there and answers 404 has lost the session too', async () => {
    const fake = (await server()).on({ rpc: 'initialize' }, initialized('s1'));
    fake.on({ rpc: 'notifications/initialized', session: 's1' }, status(202));
    fake.on({ method: 'GET', session: 's1' }, sse([': hello\n\n'])).on({ method: 'GET', session: 's1' }, status(404));
    fake.begins('s2');
    const recorded = await transport(fake.url, { recover: true }).initialize();
    await recorded.through(fake.arrived({ method: 'GET', session: 's2' }));
    expect(recorded.transport.sessionId).toBe('s2');
  });
});
