import type { JSONRPCMessage, Server, Transport } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import type { HandlerRequests } from './handler-requests.js';
import { HandlerServer } from './handler-server.js';

/** What a server was given, in order, and what it has answered. */
async function connected(): Promise<{ given: string[]; ask: (method: string) => Promise<unknown> }> {
  const given: string[] = [];
  const requests = {
    install(server: Server, method: string): boolean {
      if (method !== 'tools/list') return false;
      given.push(method);
      server.setRequestHandler(method, () => ({ tools: [] }));
      return true;
    },
  };
  const server = new HandlerServer(
    { name: 'test', version: '1.0.0' },
    { capabilities: { tools: {} } },
    requests as unknown as HandlerRequests,
  );
  let answered: (message: JSONRPCMessage) => void;
  const transport: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send: (message) => Promise.resolve(answered(message)),
  };
  await server.connect(transport);
  let id = 0;
  const ask = (method: string, params: object = {}): Promise<unknown> =>
    new Promise((resolve) => {
      answered = resolve;
      transport.onmessage?.({ jsonrpc: '2.0', id: ++id, method, params } as JSONRPCMessage);
    });
  const clientInfo = { name: 'client', version: '1.0.0' };
  await ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
  return { given, ask };
}

describe('a server over handlers', () => {
  it('is given nothing while nobody asks', async () => {
    expect((await connected()).given).toEqual([]);
  });

  it('is given the handler of a method by the first request for it, which is served', async () => {
    const { given, ask } = await connected();
    expect(await ask('tools/list')).toMatchObject({ result: { tools: [] } });
    expect(await ask('tools/list')).toMatchObject({ result: { tools: [] } });
    expect(given).toEqual(['tools/list']);
  });

  it('answers what there is no handler for as the SDK does', async () => {
    const { given, ask } = await connected();
    expect(await ask('prompts/list')).toMatchObject({ error: { code: -32601 } });
    expect(await ask('ping')).toMatchObject({ result: {} });
    expect(given).toEqual([]);
  });
});
