import { describe, expect, it } from 'vitest';
import { deferred, type Deferred } from '../common/promises.js';
import { type CallingClient, currentMcpCall, McpCall, type McpSessionInfo } from './mcp-call.js';
import { ManualClock } from '../../testing/index.js';
import type { McpEra } from '../protocol/era.js';
import { type McpError, REQUEST_FAILED } from '../protocol/errors.js';
import type { RequestId } from '../protocol/json-rpc.js';
import { Calls } from './calls.js';
import { Exchange, type McpResponseMode } from './exchange.js';
import { ResponseSink } from './response-sink.js';

const TIMEOUT_MS = 1_000;
const SECRET = 'the password is hunter2';
const SESSION: McpSessionInfo = {
  id: 's',
  principal: undefined,
  protocolVersion: '2025-11-25',
  clientInfo: { name: 'spec', version: '1' },
  clientCapabilities: {},
};
/** A client of each kind: in a session, or without one. */
const CLIENTS = ['in a session', 'legacy, without sessions', 'modern'] as const;
type ClientKind = (typeof CLIENTS)[number];

interface Form {
  client?: ClientKind;
  mode?: McpResponseMode;
  succeeded?: CallingClient['succeeded'];
}

/** Calls of clients, served by what the test says. */
function setup(serve: (call: McpCall) => object | Promise<object> = () => new Promise(() => {}), timeoutMs = Infinity) {
  const clock = new ManualClock();
  const reports: [unknown, McpCall][] = [];
  const ended: [RequestId | undefined, string][] = [];
  const dispatched: McpCall[] = [];
  const dispatcher = {
    request: (call: McpCall) => {
      dispatched.push(call);
      return serve(call);
    },
    notification: () => {},
    sessionEnded: () => {},
    capabilities: () => ({}),
  };
  const limits = { maxRunningCalls: 10, maxRunningCallsPerPrincipal: 5, maxLagMs: 1_000 };
  const calls = new Calls(dispatcher, { clock, requestTimeoutMs: timeoutMs, ...limits }, (error, call) => {
    reports.push([error, call]);
  });
  let id = 0;

  /** A request that is registered, and not dispatched yet. */
  const add = ({ client = 'modern', mode = 'json', succeeded }: Form = {}) => {
    const era: McpEra = client === 'modern' ? 'modern' : 'legacy';
    const message = { jsonrpc: '2.0', id: ++id, method: 'tools/call' } as const;
    const exchange = new Exchange([message.id], {
      clock,
      mode,
      sseAfterMs: Infinity,
      batch: false,
      clientsComeBack: () => false,
      sink: (_open, cut) => new ResponseSink(1_000, cut),
      clientGone: () => calls.cancel(call, new Error('gone')),
    });
    const from = clientOf({ client, succeeded });
    const call: McpCall = new McpCall({ era, principal: undefined, request: undefined }, message, from, exchange);
    calls.add(call);
    return { call, exchange };
  };
  /** The client of a call. */
  const clientOf = ({ client, succeeded }: Pick<Form, 'client' | 'succeeded'>): CallingClient => ({
    ...(client === 'in a session' && { info: SESSION }),
    identity: () => ({ protocolVersion: '', capabilities: {}, clientInfo: SESSION.clientInfo }),
    wantsLog: () => true,
    notify: () => Promise.resolve(),
    request: () => Promise.resolve({}),
    ...(succeeded && { succeeded }),
    ended: ({ requestId, state }) => ended.push([requestId, state]),
  });
  const begin = (form?: Form) => {
    const begun = add(form);
    calls.dispatch(begun.call);
    return begun;
  };
  /** However it ended: once, and nothing is left of it. */
  const expectEnded = (call: McpCall, how: 'answered' | 'cancelled') => {
    expect([call.state, call.signal.aborted]).toEqual([how, how === 'cancelled']);
    expect(ended).toEqual([[call.requestId, how]]);
    expect([calls.count, clock.pending]).toEqual([0, 0]);
  };
  return { clock, calls, clientOf, add, begin, reports, ended, dispatched, expectEnded };
}

const turn = () => new Promise((resolve) => void setImmediate(resolve));

/** The answer of a reply that is JSON. */
async function answerOf({ reply }: Exchange): Promise<{ status?: number; answer: unknown }> {
  const given = await reply;
  if (given.kind !== 'json') throw new Error(`The reply is ${given.kind}.`);
  const { kind: _kind, body, ...http } = given;
  return { ...http, answer: JSON.parse(body) };
}

async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  promise.then(
    () => (done = true),
    () => (done = true),
  );
  await turn();
  return done;
}

describe.each(CLIENTS)('a call of a client that is %s', (client) => {
  it('a call is answered with its result, at once or later', async () => {
    const hold = deferred<object>();
    const results: (object | Promise<object>)[] = [{ a: 1 }, hold.promise];
    const { begin, calls, ended } = setup(() => results.shift()!, TIMEOUT_MS);
    const now = begin({ client });
    expect([now.call.state, calls.count, ended]).toEqual(['answered', 0, [[1, 'answered']]]);
    expect(await answerOf(now.exchange)).toEqual({ answer: { jsonrpc: '2.0', id: 1, result: { a: 1 } } });
    const later = begin({ client });
    expect([later.call.state, calls.count]).toEqual(['open', 1]);
    hold.resolve({ b: 2 });
    expect(await answerOf(later.exchange)).toEqual({ answer: { jsonrpc: '2.0', id: 2, result: { b: 2 } } });
    expect([later.call.state, later.call.signal.aborted, calls.count]).toEqual(['answered', false, 0]);
    expect(ended).toEqual([
      [1, 'answered'],
      [2, 'answered'],
    ]);
  });

  it.each(['at once', 'later'])('a call is answered with its error, thrown %s', async (when) => {
    const error = Object.assign(new Error('not you'), { code: -32050, data: { a: 1 } });
    const serve = (): Promise<object> => {
      if (when === 'at once') throw error;
      return Promise.reject(error);
    };
    const { begin, reports, expectEnded } = setup(serve, TIMEOUT_MS);
    const { call, exchange } = begin({ client });
    const failure = { code: -32050, message: 'not you', data: { a: 1 } };
    expect(await answerOf(exchange)).toEqual({ answer: { jsonrpc: '2.0', id: 1, error: failure } });
    expect(reports).toEqual([]);
    expectEnded(call, 'answered');
  });

  it('a call gets no internal error, which the operator gets instead', async () => {
    const error = new Error(SECRET);
    const { begin, reports, expectEnded } = setup(() => Promise.reject(error));
    const { call, exchange } = begin({ client });
    const outcome = await answerOf(exchange).then(
      ({ answer }) => answer as object,
      (refused: McpError) => refused.toResponse(),
    );
    expect(outcome).toMatchObject({ error: { code: -32603 } });
    expect(JSON.stringify(outcome)).not.toContain(SECRET);
    expect(reports).toEqual([[error, call]]);
    expectEnded(call, 'answered');
  });

  it('a call is dispatched in its own context, and not at all when it was cancelled before its turn', () => {
    const seen: unknown[] = [];
    const { add, calls, dispatched } = setup(() => {
      seen.push(currentMcpCall());
      return {};
    });
    const [one, two] = [add({ client }), add({ client })];
    calls.cancel(one.call, 'enough');
    for (const { call } of [one, two]) calls.dispatch(call);
    expect([seen, dispatched, currentMcpCall()]).toEqual([[two.call], [two.call], undefined]);
    expect(one.call.state).toBe('cancelled');
  });

  it('a call is answered when its client consents, and with an error when the client refuses', async () => {
    const { begin, calls } = setup(() => ({ a: 1 }));
    const recorded = deferred();
    const kept: unknown[] = [];
    const succeeded = (call: McpCall, result: object) => {
      kept.push([call.requestId, result]);
      return recorded.promise;
    };
    const waiting = begin({ client, succeeded });
    expect(await settled(Promise.resolve(waiting.exchange.reply))).toBe(false);
    expect([waiting.call.state, calls.count, kept]).toEqual(['open', 1, [[1, { a: 1 }]]]);
    recorded.resolve();
    expect(await answerOf(waiting.exchange)).toMatchObject({ answer: { id: 1, result: { a: 1 } } });
    const error = Object.assign(new Error('not recorded'), { code: -32603 });
    const refused = begin({ client, succeeded: () => Promise.reject(error) });
    expect(await answerOf(refused.exchange)).toMatchObject({ answer: { id: 2, error: { message: 'not recorded' } } });
    const atOnce = begin({ client, succeeded: () => undefined });
    expect([atOnce.call.state, calls.count]).toEqual(['answered', 0]);
  });

  it('a call may end while its client is asked for consent', async () => {
    const recorded = deferred();
    const { begin, calls, expectEnded } = setup(() => ({}));
    const { call, exchange } = begin({ client, succeeded: () => recorded.promise });
    calls.fail(call, REQUEST_FAILED, 'over');
    recorded.resolve();
    await turn();
    expect(await answerOf(exchange)).toMatchObject({ answer: { error: { message: 'over' } } });
    expectEnded(call, 'cancelled');
  });
});

describe('the calls of a node', () => {
  it('the calls of a node are counted from their registration to their end, dispatched or not', () => {
    const { add, begin, calls } = setup();
    expect([calls.count, calls.shutdown.is]).toEqual([0, 'open']);
    const [one, two] = [add({ client: 'in a session' }), begin()];
    expect(calls.count).toBe(2);
    calls.cancel(one.call, undefined);
    calls.fail(two.call, REQUEST_FAILED, 'over');
    expect(calls.count).toBe(0);
  });
});

describe('drain()', () => {
  const holding = () => {
    const holds: Deferred<object>[] = [];
    const node = setup(() => {
      holds.push(deferred<object>());
      return holds.at(-1)!.promise;
    });
    return { ...node, holds };
  };

  it('drain() is preceded by the state "leaving", in which new calls are taken', () => {
    const { begin, calls } = holding();
    calls.shutdown.leave();
    begin();
    expect([calls.shutdown.is, calls.shutdown.takes, calls.count]).toEqual(['leaving', true, 1]);
    void calls.shutdown.drain(0);
    expect(calls.shutdown.takes).toBe(false);
  });

  it('drain() waits also for calls that begin while it waits', async () => {
    const { begin, calls, holds } = holding();
    begin();
    const drained = calls.shutdown.drain(10_000);
    begin();
    holds[0]!.resolve({});
    expect(await settled(drained)).toBe(false);
    holds[1]!.resolve({});
    expect(await settled(drained)).toBe(true);
  });

  it.each([
    ['nothing runs', 0, 10_000],
    ['there is no time', 1, 0],
  ])('drain() does not wait when %s', async (_why, running, limitMs) => {
    const { clock, begin, calls } = holding();
    for (let n = 0; n < running; n++) begin();
    const drained = calls.shutdown.drain(limitMs);
    expect(clock.pending).toBe(0);
    await drained;
    expect([calls.shutdown.is, calls.count]).toEqual(['stopped', running]);
  });
});

describe('a client that leaves before its call begins', () => {
  it('P4: a call of a session that has not begun is cancelled, and never begun', () => {
    const { calls, add, dispatched } = setup();
    const { call } = add({ client: 'in a session' });
    calls.cancelWaiting(call);
    calls.dispatch(call);
    expect(call.state).toBe('cancelled');
    expect(dispatched).toEqual([]);
  });

  it('P4: a call of a session that has begun goes on', () => {
    const { calls, begin } = setup();
    const { call } = begin({ client: 'in a session' });
    calls.cancelWaiting(call);
    expect(call.state).toBe('open');
  });
});
