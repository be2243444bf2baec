import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { ElicitRequestSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js';
import { StreamableClientTransport, type StreamableClientTransportOptions } from 'nestjs-mcp-streamable/client';
import { afterEach, describe, expect, it } from 'vitest';
import { Proxy } from '../support/proxy.js';
import { eventually } from '../support/test-apps.js';
import { TrackedClock } from '../support/tracked-clock.js';
import { MODERN_SERVERS, type RunningServer, SESSION_SERVERS } from './servers.js';
import { loneFetch } from '../support/ways.js';

/** Either official client over our transport. */
interface OverOurs {
  readonly transport: StreamableClientTransport;
  /** How often the list of tools was said to have changed. */
  changes(): number;
  call(
    tool: string,
    args?: Record<string, unknown>,
    options?: { signal?: AbortSignal; onprogress?: (n: number) => void },
  ): Promise<string>;
  close(): Promise<void>;
}

interface ClientKind {
  readonly name: string;
  connect(transport: StreamableClientTransport, modern?: boolean): Promise<OverOurs>;
}

const INFO = { name: 'test', version: '1.0.0' };
const ANSWER = { action: 'accept' as const, content: { name: 'Ada' } };
const saying = (result: unknown): string => (result as { content: { text: string }[] }).content[0]!.text;

const v2: ClientKind = {
  name: '@modelcontextprotocol/client 2.4',
  async connect(transport, modern = false) {
    let changes = 0;
    const client = new ClientV2(INFO, {
      capabilities: { elicitation: {} },
      versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' },
    });
    client.setNotificationHandler('notifications/tools/list_changed', () => void changes++);
    client.setRequestHandler('elicitation/create', () => ANSWER);
    await client.connect(transport);
    if (modern) await client.listen({ toolsListChanged: true });
    return {
      transport,
      changes: () => changes,
      call: async (name, args = {}, { signal, onprogress } = {}) => {
        const options = {
          ...(signal && { signal }),
          ...(onprogress && { onprogress: (p: { progress: number }) => onprogress(p.progress) }),
        };
        return saying(await client.callTool({ name, arguments: args }, options));
      },
      close: () => client.close(),
    };
  },
};

const v1: ClientKind = {
  name: '@modelcontextprotocol/sdk 1.32',
  async connect(transport) {
    let changes = 0;
    const client = new ClientV1(INFO, { capabilities: { elicitation: {} } });
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes++);
    client.setRequestHandler(ElicitRequestSchema, () => ANSWER);
    await client.connect(transport);
    return {
      transport,
      changes: () => changes,
      call: async (name, args = {}, { signal, onprogress } = {}) => {
        const options = {
          ...(signal && { signal }),
          ...(onprogress && { onprogress: (p: { progress: number }) => onprogress(p.progress) }),
        };
        return saying(await client.callTool({ name, arguments: args }, undefined, options));
      },
      close: () => client.close(),
    };
  },
};

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function connect(
  kind: ClientKind,
  url: string | URL,
  { modern, ...options }: StreamableClientTransportOptions & { modern?: boolean } = {},
): Promise<OverOurs> {
  const clock = new TrackedClock();
  const transport = new StreamableClientTransport(url, {
    fetch: loneFetch,
    clock,
    reconnect: { firstDelayMs: 5, maxDelayMs: 50 },
    ...options,
  });
  const client = await kind.connect(transport, modern);
  closing.push(async () => {
    await client.close();
    expect(clock.pending).toBe(0);
  });
  return client;
}

const started = async (start: () => Promise<RunningServer>): Promise<RunningServer> => {
  const server = await start();
  closing.push(() => server.close());
  return server;
};

describe.each(SESSION_SERVERS)('a server with sessions: $name', ({ start }) => {
  describe.each([v2, v1])('and $name over our transport', (kind) => {
    it('C1 C3 C12: calls, many at a time, each with all its progress', async () => {
      const { url } = await started(start);
      const client = await connect(kind, url);
      const calls = Array.from({ length: 20 }, async (_, n) => {
        const seen: number[] = [];
        expect(await client.call('count', { to: n }, { onprogress: (p) => seen.push(p) })).toBe(`counted ${n}`);
        expect(seen).toEqual(Array.from({ length: n }, (__, at) => at + 1));
      });
      await Promise.all(calls);
    });

    it('a cancelled call reaches the handler', async () => {
      const server = await started(start);
      const client = await connect(kind, server.url);
      const controller = new AbortController();
      const call = client.call('wait', {}, { signal: controller.signal, onprogress: () => controller.abort('enough') });
      await expect(call).rejects.toThrow('enough');
      await eventually(() => expect(server.cancelled).toHaveLength(1));
      expect(await client.call('count')).toBe('counted 3');
    });

    it('C1: requests of the server are answered while a call is under way', async () => {
      const { url } = await started(start);
      const client = await connect(kind, url);
      expect(await client.call('ask')).toBe('Hello Ada');
    });

    it('C10: what belongs to no request comes over the standalone stream', async () => {
      const server = await started(start);
      const client = await connect(kind, server.url);
      await eventually(async () => {
        // The stream opens some time after the connection.
        if (client.changes() === 0) await server.change();
        expect(client.changes()).toBeGreaterThan(0);
      });
    });

    it('C4: a response that is cut is resumed, and its answer arrives once', async () => {
      const server = await started(start);
      const proxy = await Proxy.start(new URL(server.url));
      closing.push(() => proxy.close());
      const client = await connect(kind, proxy.url);
      const kinds: string[] = [];
      client.transport.reconnects$.subscribe(({ kind: how }) => {
        kinds.push(how);
        if (how === 'resume') server.release();
      });
      const seen: number[] = [];
      const onprogress = (n: number): void => {
        seen.push(n);
        if (n === 3) proxy.cut();
      };
      expect(await client.call('held', { to: 6 }, { onprogress })).toBe('counted 6');
      expect(seen).toEqual([1, 2, 3, 4, 5, 6]);
      expect(kinds).toContain('resume');
      expect(client.transport.state.is).toBe('live');
    });

    it('C11: close() ends the session on the server', async () => {
      const server = await started(start);
      const client = await connect(kind, server.url);
      expect(await server.sessions()).toBe(1);
      await client.close();
      expect(await server.sessions()).toBe(0);
      expect(client.transport.state.is).toBe('closed');
    });
  });
});

describe.each(MODERN_SERVERS)('a server without sessions: $name', ({ start }) => {
  it('C13: a client of a server without sessions calls with progress, cancels by closing the response, listens', async () => {
    const server = await started(start);
    const client = await connect(v2, server.url, { modern: true });
    const seen: number[] = [];
    expect(await client.call('count', { to: 4 }, { onprogress: (n) => seen.push(n) })).toBe('counted 4');
    expect(seen).toEqual([1, 2, 3, 4]);
    const controller = new AbortController();
    const call = client.call('wait', {}, { signal: controller.signal, onprogress: () => controller.abort('enough') });
    await expect(call).rejects.toThrow('enough');
    await eventually(() => expect(server.cancelled).toHaveLength(1));
    await server.change();
    await eventually(() => expect(client.changes()).toBe(1));
    expect(client.transport.state.is).toBe('started');
  });
});
