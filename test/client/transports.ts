import { Client } from '@modelcontextprotocol/client';
import {
  StreamableClientTransport,
  type McpReconnectEvent,
  type McpRecoveryEvent,
  type StreamableClientTransportOptions,
} from 'nestjs-mcp-streamable/client';
import type { JSONRPCMessage } from '@modelcontextprotocol/client';
import { afterEach, expect } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { FakeMcpServer } from '../support/fake-mcp-server.js';
import { loneFetch } from '../support/ways.js';

/** A transport with everything that it said, on time that a test turns. */
export class Recorded {
  readonly clock: ManualClock;
  readonly messages: JSONRPCMessage[] = [];
  readonly errors: Error[] = [];
  readonly reconnects: McpReconnectEvent[] = [];
  readonly recoveries: McpRecoveryEvent[] = [];
  readonly states: string[] = [];
  closes = 0;
  readonly transport: StreamableClientTransport;

  constructor(url: string, options: StreamableClientTransportOptions = {}) {
    this.clock = (options.clock as ManualClock | undefined) ?? new ManualClock();
    const transport = new StreamableClientTransport(url, {
      fetch: loneFetch,
      clock: this.clock,
      random: () => 1 - Number.EPSILON,
      ...options,
    });
    this.transport = transport;
    transport.onmessage = (message) => void this.messages.push(message);
    transport.onerror = (error) => void this.errors.push(error);
    transport.onclose = () => void this.closes++;
    transport.reconnects$.subscribe((event) => this.reconnects.push(event));
    transport.recoveries$.subscribe((event) => this.recoveries.push(event));
    transport.state$.subscribe(({ is }) => this.states.push(is));
  }

  /** Sends `initialize` and its notification. */
  async initialize(): Promise<this> {
    if (this.transport.state.is === 'new') await this.transport.start();
    await this.transport.send(INITIALIZE);
    await this.transport.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    return this;
  }

  call(id: string | number, name = 'tool', params: object = {}): Promise<void> {
    return this.transport.send({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name, arguments: {}, ...params },
    });
  }

  /** What answered a request. */
  answers(id: string | number): JSONRPCMessage[] {
    return this.messages.filter((message) => !('method' in message) && message.id === id);
  }

  /** Turns the clock whenever a wait is announced, until a promise settles. */
  async through<T>(task: Promise<T>): Promise<T> {
    const state = { over: false };
    const done = task.finally(() => (state.over = true));
    done.catch(() => {});
    while (!state.over) {
      await new Promise((resolve) => setImmediate(resolve));
      if (this.reconnects.length > this.#waited) await this.clock.advance(this.reconnects[this.#waited++]!.delayMs);
    }
    return done;
  }
  #waited = 0;
}

export const INITIALIZE: JSONRPCMessage = {
  jsonrpc: '2.0',
  id: 'init',
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '1.0.0' } },
};

/** Fake servers and transports that are closed after each test, and must have left nothing behind. */
export function fakes(): {
  server: () => Promise<FakeMcpServer>;
  transport: (url: string, options?: StreamableClientTransportOptions) => Recorded;
  client: (url: string, options?: StreamableClientTransportOptions) => { client: Client; recorded: Recorded };
} {
  const servers: FakeMcpServer[] = [];
  const transports: Recorded[] = [];
  afterEach(async () => {
    for (const recorded of transports.splice(0)) {
      const { state } = recorded.transport;
      await recorded.transport.close();
      if (state.is !== 'new') expect(recorded.closes).toBe(1);
      expect(recorded.clock.pending).toBe(0);
    }
    for (const server of servers.splice(0)) {
      await server.quiet();
      await server.close();
    }
  });
  return {
    server: async () => {
      const server = await FakeMcpServer.start();
      servers.push(server);
      return server;
    },
    transport: (url, options) => {
      const recorded = new Recorded(url, { terminateOnClose: false, ...options });
      transports.push(recorded);
      return recorded;
    },
    client: (url, options) => {
      const recorded = new Recorded(url, { terminateOnClose: false, ...options });
      transports.push(recorded);
      return { client: new Client({ name: 'test', version: '1.0.0' }), recorded };
    },
  };
}
