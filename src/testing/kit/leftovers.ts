import { AssertionError } from 'node:assert';
import type { INestApplication } from '@nestjs/common';
import { McpEndpoint } from '../../core/eras/mcp-endpoint.js';
import { McpResponder } from '../../core/http/responder.js';
import type { McpEndpointHost } from '../../core/plugins/mcp-plugin.js';
import { PluginHost } from '../../core/plugins/plugin-host.js';
import { type McpCounts, McpSessionService } from '../../index.js';
import { InMemoryStateStore, McpStateStore } from '../../stores/index.js';
import { endpointsOf } from './endpoints.js';

/** Counts everything that the endpoints of an app hold. @publicApi */
export interface McpLeftovers extends McpCounts {
  /** Counts the responses that are open streams. */
  openResponses: number;
  /** Counts the states that outlive a call (`ctx.state()`); 0 with a store that does not count them. */
  states: number;
  /**
   * Counts the timers of the endpoints, where the app's `McpClock` is one that counts them, such as `ManualClock`; else
   * 0.
   */
  timers: number;
}

/** These are the real ones, also when a test runner replaces the globals later. */
const { setTimeout } = globalThis;
const { now } = Date;

const POLL_MS = 5;

/**
 * Asserts that an app holds nothing of its clients: no session, call, stream, subscription, log or timer. It waits for
 * ends that are in progress.
 *
 * @param options `withinMs`: how long the ends may take @default 5000
 * @throws AssertionError (rejects) with what is left
 * @publicApi
 */
export async function expectNothingLeft(
  app: INestApplication,
  { withinMs = 5_000 }: { withinMs?: number } = {},
): Promise<void> {
  const deadline = now() + withinMs;
  for (;;) {
    const actual = await leftIn(endpointsOf(app));
    const left = Object.entries(actual).filter(([, count]) => count !== 0);
    if (left.length === 0) return;
    if (now() >= deadline) {
      const expected = Object.fromEntries(Object.keys(actual).map((name) => [name, 0]));
      const list = left.map(([name, count]) => `${name}: ${count}`).join(', ');
      const message = `The MCP endpoints of the app are not empty after ${withinMs} ms: ${list}. Close all clients; end the sessions that remain with McpSessionService.terminateAll().`;
      throw new AssertionError({ message, actual, expected, operator: 'expectNothingLeft' });
    }
    await new Promise((resolve) => void setTimeout(resolve, POLL_MS));
  }
}

/** Returns the sums over endpoints, also those of several apps. */
export async function leftIn(endpoints: readonly McpEndpointHost[]): Promise<McpLeftovers> {
  const counts = await Promise.all(endpoints.map(countsOf));
  const names = Object.keys(counts[0]!) as (keyof McpLeftovers)[];
  const sum = (name: keyof McpLeftovers): number => counts.reduce((total, each) => total + each[name], 0);
  const total = Object.fromEntries(names.map((name) => [name, sum(name)])) as unknown as McpLeftovers;
  return { ...total, timers: timersOf(endpoints) };
}

async function countsOf(endpoint: McpEndpointHost): Promise<McpLeftovers> {
  const states: McpStateStore = endpoint.get(McpStateStore);
  return {
    ...(await endpoint.get(McpSessionService).counts()),
    openResponses: endpoint.get(McpResponder).open,
    states: states instanceof InMemoryStateStore ? states.stateCount : 0,
    timers: 0,
  };
}

/**
 * Counts all timers of clocks that count them, without those that look for expired sessions: one for each endpoint that
 * is open.
 */
export function timersOf(endpoints: readonly McpEndpointHost[]): number {
  const clocks = new Set(endpoints.map(({ clock }) => clock as { readonly pending?: unknown }));
  const pending = [...clocks].flatMap(({ pending: count }) => (typeof count === 'number' ? [count] : []));
  const sweepers = endpoints.filter(
    (endpoint) =>
      typeof (endpoint.clock as { pending?: unknown }).pending === 'number' &&
      endpoint.get(McpEndpoint).state !== 'stopped',
  );
  // Such as that which looks for changed skills.
  const standing = endpoints.reduce((total, endpoint) => total + standingOf(endpoint), 0);
  return pending.reduce((total, count) => total + count, 0) - sweepers.length - standing;
}

function standingOf(endpoint: McpEndpointHost): number {
  return endpoint.get(PluginHost).standingTimers;
}
