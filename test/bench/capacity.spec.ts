import { describe, expect, it } from 'vitest';
import {
  byKind,
  type Coefficients,
  type Cost,
  type Load,
  OPERATIONS,
  planOf,
  rates,
  summed,
} from '../../bench/capacity/model.js';

const LOAD: Load = {
  sessions: 36_000,
  sessionMinutes: 60,
  callsPerSecond: 1_000,
  handlerMicros: 0,
  streamed: 0.1,
  events: 5,
  streams: 0.5,
  notificationsPerSecond: 100,
  sticky: true,
  adapter: 'fastify',
  slots: 4,
};
const nothing: Cost = { node: 0, redis: 0, bytes: 0, commands: byKind(() => 0) };
const coefficients = (costs: Partial<Coefficients['costs']>): Coefficients => ({
  costs: { ...(Object.fromEntries(OPERATIONS.map((name) => [name, nothing])) as Coefficients['costs']), ...costs },
  express: 2,
  memory: { session: 1_000, stream: 4_000 },
  stored: { session: 500, event: 100 },
});
const commands = (some: Partial<Cost['commands']>): Cost['commands'] => byKind((kind) => some[kind] ?? 0);

describe('the model of capacity', () => {
  it('the model of capacity makes operations a second of a load', () => {
    expect(rates(LOAD, 3)).toEqual({
      session: 10,
      call: 900,
      // Ten times in half an hour at most.
      activity: 200,
      arrival: 0,
      'streamed call': 100,
      event: 500,
      stream: 5,
      notification: 100,
      'distant notification': 0,
      'node minute': 3 / 60,
    });
  });

  it('the model of capacity lets sessions meet all nodes that their requests reach without sticky routing', () => {
    const spread = rates({ ...LOAD, sticky: false }, 4);
    expect(spread).toMatchObject({ arrival: 30, activity: 800, notification: 25, 'distant notification': 75 });
    // A session with two calls meets two nodes.
    const few = rates({ ...LOAD, sticky: false, callsPerSecond: 20 }, 4);
    expect(few).toMatchObject({ arrival: 10, activity: 20 });
  });

  it('the model of capacity adds up what operations cost', () => {
    const one: Cost = { node: 10, redis: 2, bytes: 100, commands: commands({ session: 2, index: 1 }) };
    const { costs } = coefficients({ session: one, call: { ...nothing, node: 5 } });
    expect(summed(costs, { session: 3, call: 4 })).toEqual({
      node: 50,
      redis: 6,
      bytes: 300,
      commands: commands({ session: 6, index: 3 }),
    });
  });

  it('the model of capacity takes as many nodes as use 60 % of their cores, with the handlers and on the slower adapter', () => {
    const call = coefficients({ call: { ...nothing, node: 1_000 }, 'node minute': { ...nothing, node: 6_000_000 } });
    // 0.9 cores for the calls, and a tenth of a core for each node.
    expect(planOf(LOAD, call)).toMatchObject({ nodes: 2, nodeCores: 0.9 + 2 * 0.1 });
    expect(planOf({ ...LOAD, handlerMicros: 1_000 }, call).nodes).toBe(4);
    expect(planOf({ ...LOAD, adapter: 'express' }, call).nodes).toBe(5);
  });

  it('the model of capacity finds the key with most commands, and at which load the index is full', () => {
    const activity = { ...nothing, redis: 1_000, commands: commands({ session: 1, index: 1 }) };
    const plan = planOf(LOAD, coefficients({ activity }));
    expect(plan).toMatchObject({
      redisCores: 0.2,
      masters: 1,
      commandsPerSecond: 400,
      hottest: { kind: 'index', share: 1 / 8 },
    });
    // Half of the fifth of a core is spread over four keys.
    expect(plan.bears['the index of sessions']).toBeCloseTo(0.6 / (0.1 / 4));
    expect(planOf({ ...LOAD, slots: 64 }, coefficients({ activity })).hottest.share).toBeLessThan(1 / 30);
  });

  it('the model of capacity lets each node look through all slots of the index', () => {
    const activity = { ...nothing, redis: 10, commands: commands({ session: 1, index: 1 }) };
    const minute = { ...nothing, commands: commands({ index: 4, bus: 30 }) };
    const idle = { ...LOAD, callsPerSecond: 0, notificationsPerSecond: 0 };
    const plan = planOf(idle, coefficients({ activity, 'node minute': minute }));
    expect(plan.commands).toEqual(commands({ index: (4 * 4) / 60, bus: 30 / 60 }));
    expect(plan.redisCores).toBeCloseTo(((3 * 4) / 60) * 5 * 1e-6);
  });

  it('the model of capacity adds up memory of nodes and of Redis', () => {
    const plan = planOf(LOAD, coefficients({}));
    expect(plan).toMatchObject({ nodes: 1, nodeMemory: 36_000 * (1_000 + 0.5 * 4_000) });
    expect(plan.redisMemory).toBe(36_000 * 500 + 500 * 300 * 100);
  });
});
