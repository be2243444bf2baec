import { Client } from '@modelcontextprotocol/client';
import { StreamableClientTransport, type StreamableClientTransportOptions } from 'nestjs-mcp-streamable/client';
import { describe, expect, it } from 'vitest';
import { type FakeMcpServer, frame, held, initialized, progress, sse, status } from '../support/fake-mcp-server.js';
import { eventually } from '../support/test-apps.js';
import { fakes, INITIALIZE, type Recorded } from './transports.js';

const never = new Promise<never>(() => {});
const DELETES = { terminateOnClose: true } as const;

interface Situation {
  readonly name: string;
  readonly options?: StreamableClientTransportOptions;
  /** Whether the session has to be ended on the server. */
  readonly deletes?: boolean;
  /** Brings the transport there. @returns what is under way, and fails with the end */
  reach(recorded: Recorded, fake: FakeMcpServer): Promise<Promise<unknown>[]>;
}

/** Calls, and waits until the call has come that far. */
async function calling(recorded: Recorded, until: () => Promise<unknown>): Promise<Promise<unknown>[]> {
  const call = recorded.call(1);
  call.catch(() => {});
  await until();
  return [call];
}

const SITUATIONS: readonly Situation[] = [
  { name: 'not started', reach: () => Promise.resolve([]) },
  { name: 'started', reach: ({ transport }) => transport.start().then(() => []) },
  {
    name: 'initializing, with calls that wait',
    reach: async (recorded, fake) => {
      fake.on({ rpc: 'initialize' }, () => {});
      await recorded.transport.start();
      const pending = [recorded.transport.send(INITIALIZE), recorded.call(1)];
      for (const each of pending) each.catch(() => {});
      await fake.arrived({ rpc: 'initialize' });
      return pending;
    },
  },
  {
    name: 'live, the standalone stream opening',
    deletes: true,
    reach: async (recorded, fake) => {
      fake.on({ rpc: 'initialize' }, initialized()).on({ rpc: 'notifications/initialized' }, status(202));
      fake.on({ method: 'GET' }, () => {});
      await recorded.initialize();
      await fake.arrived({ method: 'GET' });
      return [];
    },
  },
  {
    name: 'live, the standalone stream open',
    deletes: true,
    reach: async (recorded, fake) => {
      const list = frame({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
      fake.on({ rpc: 'initialize' }, initialized()).on({ rpc: 'notifications/initialized' }, status(202));
      fake.on({ method: 'GET' }, sse([list], 'open'));
      await recorded.initialize();
      await eventually(() => expect(recorded.messages).toHaveLength(2));
      return [];
    },
  },
  {
    name: 'a call posted, no head yet',
    deletes: true,
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'tools/call' }, () => {});
      await recorded.initialize();
      return calling(recorded, () => fake.arrived({ rpc: 'tools/call' }));
    },
  },
  {
    name: 'a call streaming',
    deletes: true,
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'open'));
      await recorded.initialize();
      return calling(recorded, () => eventually(() => expect(recorded.messages).toHaveLength(2)));
    },
  },
  {
    name: 'a call waiting to come back',
    deletes: true,
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'cut'));
      await recorded.initialize();
      return calling(recorded, () => eventually(() => expect(recorded.reconnects).toHaveLength(1)));
    },
  },
  {
    name: 'a call coming back',
    deletes: true,
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'tools/call' }, sse([frame(progress('t', 1), 'a_1')], 'cut'));
      fake.on({ method: 'GET', lastEventId: 'a_1' }, () => {});
      await recorded.initialize();
      return calling(recorded, () => recorded.through(fake.arrived({ method: 'GET', lastEventId: 'a_1' })));
    },
  },
  {
    name: 'answers on their way, and others that wait',
    deletes: true,
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'response' }, () => {}, 32);
      await recorded.initialize();
      const answers = Array.from({ length: 40 }, (_, id) =>
        recorded.transport.send({ jsonrpc: '2.0', id, result: {} }),
      );
      for (const each of answers) each.catch(() => {});
      await fake.arrived({ rpc: 'response' }, 32);
      return answers;
    },
  },
  {
    name: 'the session lost',
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'tools/call' }, status(404));
      await recorded.initialize();
      await expect(recorded.call(1)).rejects.toMatchObject({ code: 'SESSION_LOST' });
      return [];
    },
  },
  {
    name: 'recovering',
    options: { recover: true },
    reach: async (recorded, fake) => {
      fake
        .begins()
        .on({ rpc: 'tools/call' }, status(404))
        .on({ rpc: 'initialize' }, () => {});
      await recorded.initialize();
      return calling(recorded, () => fake.arrived({ rpc: 'initialize' }, 2));
    },
  },
  {
    name: 'waiting for credentials',
    deletes: true,
    options: { onUnauthorized: () => never },
    reach: async (recorded, fake) => {
      fake.begins().on({ rpc: 'tools/call' }, status(401));
      await recorded.initialize();
      return calling(recorded, () => fake.arrived({ rpc: 'tools/call' }));
    },
  },
  {
    name: 'waiting for headers',
    options: { headers: () => never },
    reach: async (recorded) => {
      await recorded.transport.start();
      return calling(recorded, () => Promise.resolve());
    },
  },
];

describe('close()', () => {
  const { server, transport } = fakes();

  it.each(SITUATIONS)('C11: $name', async ({ options, deletes = false, reach }) => {
    const fake = await server();
    const recorded = transport(fake.url, { ...DELETES, ...options });
    const pending = await reach(recorded, fake);
    if (deletes) fake.on({ method: 'DELETE', session: 's1' }, status(204));
    const handedOver = recorded.messages.length;
    const ends = [recorded.transport.close(), recorded.transport.close()];
    await Promise.all(ends);
    expect(recorded.closes).toBe(1);
    expect(recorded.states.slice(-2)).toEqual(['closing', 'closed']);
    expect(recorded.clock.pending).toBe(0);
    for (const each of pending) await expect(each).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    await fake.quiet();
    expect(recorded.messages).toHaveLength(handedOver);
    expect(fake.seen({ method: 'DELETE' })).toHaveLength(deletes ? 1 : 0);
    await expect(recorded.transport.send(INITIALIZE)).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    await expect(recorded.call(2)).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    await expect(recorded.transport.start()).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
  });

  it('C11: the DELETE is bounded in time, and nothing is handed over meanwhile', async () => {
    const fake = await server();
    const recorded = transport(fake.url, { ...DELETES, closeTimeoutMs: 300 });
    const streaming = held();
    fake
      .begins()
      .on({ rpc: 'tools/call' }, streaming.answer)
      .on({ method: 'DELETE' }, () => {});
    await recorded.initialize();
    const call = recorded.call(1);
    call.catch(() => {});
    const response = await streaming.arrived;
    response.writeHead(200, { 'content-type': 'text/event-stream' }).write(frame(progress('t', 1), 'a_1'));
    await eventually(() => expect(recorded.messages).toHaveLength(2));
    const closing = recorded.transport.close();
    await fake.arrived({ method: 'DELETE' });
    response.end(frame({ jsonrpc: '2.0', id: 1, error: { code: -32000, message: 'ended' } }, 'a_2'));
    await fake.arrived({ method: 'DELETE' });
    expect(recorded.closes).toBe(0);
    await recorded.clock.advance(300);
    await closing;
    expect(recorded.messages).toHaveLength(2);
    await expect(call).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
  });

  it.each([500, 404, 405])('C11: a DELETE that is answered %i is as good', async (code) => {
    const fake = (await server()).begins().on({ method: 'DELETE' }, status(code));
    const recorded = await transport(fake.url, DELETES).initialize();
    await recorded.transport.close();
    expect(recorded.transport.state.is).toBe('closed');
  });

  it('C11: without "terminateOnClose" the session can be continued', async () => {
    const fake = (await server()).begins();
    const first = await transport(fake.url, { terminateOnClose: false }).initialize();
    const { sessionId, protocolVersion } = first.transport;
    await fake.arrived({ method: 'GET' });
    await first.transport.close();
    const opened = held();
    fake.on({ method: 'GET', session: 's1' }, opened.answer).on({ rpc: 'tools/call', session: 's1' }, status(429));
    const second = transport(fake.url, { sessionId, protocolVersion, reconnect: { maxAttempts: 1 } });
    await second.transport.start();
    await opened.arrived;
    await expect(second.call(1)).rejects.toMatchObject({ status: 429 });
  });

  it('C11: an observer that fails, or closes again, changes nothing', async () => {
    const fake = (await server()).begins().on({ method: 'DELETE' }, status(204));
    const recorded = await transport(fake.url, DELETES).initialize();
    const { transport: closing } = recorded;
    let heard = 0;
    closing.onclose = () => {
      heard++;
      recorded.closes++;
      void closing.close();
      throw new Error('of the observer');
    };
    await closing.close();
    expect(heard).toBe(1);
    expect(recorded.errors).toMatchObject([{ message: 'of the observer' }]);
  });

  it('C11: calls of the official client fail with its own error', async () => {
    const fake = (await server()).begins().on({ rpc: 'tools/call' }, () => {});
    const client = new Client({ name: 'test', version: '1.0.0' });
    await client.connect(new StreamableClientTransport(fake.url, { terminateOnClose: false }));
    const call = client.callTool({ name: 'tool' });
    call.catch(() => {});
    await fake.arrived({ rpc: 'tools/call' });
    await client.close();
    await expect(call).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' });
  });

  it('close() is not started twice', async () => {
    const recorded = transport('http://127.0.0.1:9/mcp');
    await expect(recorded.call(1)).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
    await recorded.transport.start();
    await expect(recorded.transport.start()).rejects.toMatchObject({ code: 'NOT_CONNECTED' });
  });
});
