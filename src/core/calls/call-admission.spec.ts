import { AsyncLocalStorage } from 'node:async_hooks';
import { describe, expect, it } from 'vitest';
import { LoopLag } from '../common/loop-lag.js';
import { type CallingClient, McpCall, type McpSessionInfo } from './mcp-call.js';
import { CallAdmission } from './call-admission.js';

/** A process is busy when a handler has kept the processor for so long. */
const LONG_MS = 60;

/** Admission in a process whose time stands still until the test says so. */
function setup(limits: Partial<ConstructorParameters<typeof CallAdmission>[0]> = {}, named = (id: string) => id) {
  const time = { ms: 0, idleMs: 0, cpuMs: 0, timers: [] as (() => void)[] };
  const lag = new LoopLag({
    now: () => time.ms,
    idleMs: () => time.idleMs,
    cpuMs: () => time.cpuMs,
    setTimeout: (task) => time.timers.push(task),
  });
  const begun: string[] = [];
  const admission: CallAdmission = new CallAdmission(
    { maxRunningCalls: 100, maxRunningCallsPerPrincipal: 50, maxLagMs: 1_000, ...limits },
    (call) => void begun.push(named(String(call.requestId))),
    lag,
  );
  const call = (id: string, principal?: string, sessionId?: string) => {
    const from = { info: sessionId ? ({ id: sessionId } as McpSessionInfo) : undefined } as CallingClient;
    const message = { jsonrpc: '2.0', id, method: 'tools/call' } as const;
    const made = new McpCall({ era: 'modern', principal, request: undefined }, message, from);
    admission.enter(made);
    return made;
  };
  /** Begins a call, or lets it wait. */
  const dispatch = (made: McpCall) => {
    if (!admission.waits(made)) begun.push(String(made.requestId));
    return made;
  };
  /** The current turn of the loop takes so long, and work of the process so much of that; its timers run afterwards. */
  const turn = (ms: number, cpuMs = ms) => {
    time.ms += ms;
    time.cpuMs += cpuMs;
    for (const timer of time.timers.splice(0)) timer();
  };
  /** A call begins that keeps the processor: others wait for their turn. */
  const busy = (principal = 'busy') => {
    const first = call('first', principal);
    admission.waits(first);
    first.release();
    time.ms += LONG_MS;
  };
  const turns = async (count: number) => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { admission, begun, call, dispatch, turn, busy, turns, time };
}

describe('admission of calls', () => {
  it('E14: admission of calls calls begin at once while the turns of the event loop are short', async () => {
    const { begun, call, dispatch, turns, time } = setup();
    for (const id of ['1', '2']) dispatch(call(id, 'ann'));
    time.ms += 3;
    await turns(1);
    dispatch(call('3', 'ann'));
    expect(begun).toEqual(['1', '2', '3']);
  });

  it('E14: admission of calls calls begin at once after one long turn of a process that has time', async () => {
    const { begun, call, dispatch, turns, time } = setup();
    dispatch(call('1', 'ann'));
    [time.ms, time.idleMs] = [40, 1];
    await turns(1);
    dispatch(call('2', 'ann'));
    expect(begun).toEqual(['1', '2']);
  });

  it('E14: after a long turn of a busy process calls begin again when what other clients have sent was read', async () => {
    const { begun, busy, call, dispatch, turns } = setup();
    busy();
    await turns(1);
    dispatch(call('next', 'ann'));
    await turns(15);
    expect(begun).toEqual([]);
    await turns(2);
    expect(begun).toEqual(['next']);
    dispatch(call('later', 'ann'));
    await turns(2);
    expect(begun).toEqual(['next', 'later']);
  });

  it('E14: calls begin again sooner where the turns that only read are long, because other processes have the processor', async () => {
    const { begun, busy, call, dispatch, turns, time } = setup();
    busy();
    await turns(1);
    dispatch(call('next', 'ann'));
    await turns(2);
    expect(begun).toEqual([]);
    time.ms += 60;
    await turns(1);
    expect(begun).toEqual(['next']);
  });

  it('E14: a call that has waited for its turn begins in the async context of its request', async () => {
    const tenant = new AsyncLocalStorage<string>();
    const { begun, busy, call, dispatch, turns } = setup({}, (id) => `${id} for ${tenant.getStore()}`);
    tenant.run('busy', busy);
    for (const who of ['ann', 'bob']) tenant.run(who, () => dispatch(call('next', who)));
    await turns(20);
    expect(begun).toEqual(['next for ann', 'next for bob']);
  });

  it('E14: in a busy process, a caller with one call does not wait for the many calls of another', async () => {
    const { begun, call, dispatch, busy, turns } = setup();
    busy();
    for (let i = 0; i < 40; i++) dispatch(call(`heavy ${i}`, 'heavy'));
    dispatch(call('light', 'light'));
    expect(begun).toEqual([]);
    await turns(20);
    expect(begun.indexOf('light')).toBe(1);
    await turns(1_500);
    expect(begun).toHaveLength(41);
    expect(begun.filter((id) => id !== 'light')).toEqual(Array.from({ length: 40 }, (_, i) => `heavy ${i}`));
  });

  it('E14: anonymous callers of two sessions take turns', async () => {
    const { begun, call, dispatch, busy, turns } = setup();
    busy();
    for (let i = 0; i < 3; i++) dispatch(call(`a${i}`, undefined, 'session a'));
    dispatch(call('b', undefined, 'session b'));
    await turns(200);
    expect(begun).toEqual(['a0', 'b', 'a1', 'a2']);
  });

  it('P4: a call that was cancelled while it waited for its turn is not begun', async () => {
    const { begun, call, dispatch, busy, turns } = setup();
    busy();
    const gone = dispatch(call('gone', 'ann'));
    dispatch(call('next', 'ann'));
    gone.cancelled(new Error('gone'));
    gone.release();
    await turns(80);
    expect(begun).toEqual(['next']);
  });

  it('E14: above maxRunningCallsPerPrincipal a caller gets 429, and others do not', () => {
    const { admission, call } = setup({ maxRunningCallsPerPrincipal: 2 });
    const first = call('1', 'ann');
    expect(admission.strained).toBe(false);
    call('2', 'ann');
    expect(admission.refusal('ann', undefined)).toMatchObject({
      status: 429,
      headers: { 'Retry-After': '1' },
      option: 'maxRunningCallsPerPrincipal',
    });
    expect(admission.refusal('bob', undefined)).toBeUndefined();
    expect(admission.refusal(undefined, 's')).toBeUndefined();
    first.release();
    expect(admission.refusal('ann', undefined)).toBeUndefined();
  });

  it('E14: anonymous callers have the limit of a principal in each session, and none without sessions', () => {
    const { admission, call } = setup({ maxRunningCallsPerPrincipal: 1 });
    call('1', undefined, 'a');
    call('2');
    expect(admission.refusal(undefined, 'a')).toMatchObject({ status: 429 });
    expect(admission.refusal(undefined, 'b')).toBeUndefined();
    expect(admission.refusal(undefined, undefined)).toBeUndefined();
  });

  it('E14: above maxRunningCalls every caller gets 503', () => {
    const { admission, call } = setup({ maxRunningCalls: 2 });
    call('1', 'ann');
    call('2');
    expect(admission.refusal('bob', undefined)).toMatchObject({ status: 503, option: 'maxRunningCalls' });
  });

  it('E14: a caller who signs in while anonymous callers run maxRunningCalls gets the next place', () => {
    const { admission, call } = setup({ maxRunningCalls: 2 });
    const running = ['1', '2'].map((id) => call(id));
    expect(admission.refusal('ann', undefined)).toMatchObject({ option: 'maxRunningCalls' });
    running[0]!.release();
    expect(admission.refusal(undefined, undefined)).toMatchObject({ message: expect.stringContaining('half') });
    expect(admission.refusal('ann', undefined)).toBeUndefined();
  });

  it('E14: once a caller has signed in, anonymous callers run at most half of maxRunningCalls', () => {
    const { admission, call } = setup({ maxRunningCalls: 4 });
    for (const session of ['a', 'b']) call(session, undefined, session);
    expect(admission.refusal(undefined, 'c')).toBeUndefined();
    expect(admission.refusal('ann', undefined)).toBeUndefined();
    expect(admission.refusal(undefined, 'c')).toMatchObject({ status: 503, option: 'maxRunningCalls' });
    const first = call('1', 'ann');
    call('2', 'ann');
    expect(admission.refusal('ann', undefined)).toMatchObject({ status: 503 });
    first.release();
    expect(admission.refusal('ann', undefined)).toBeUndefined();
    expect(admission.refusal(undefined, undefined)).toMatchObject({ status: 503 });
  });

  it('E14: while the event loop stays later than maxLagMs every caller gets 503', () => {
    const { admission, turn } = setup({ maxLagMs: 500 });
    expect(admission.strained).toBe(false);
    turn(1_000);
    expect(admission.strained).toBe(false);
    turn(1_000);
    expect(admission.strained).toBe(true);
    expect(admission.refusal('ann', undefined)).toMatchObject({ status: 503, option: 'maxLagMs' });
    turn(20);
    expect(admission.refusal('ann', undefined)).toBeUndefined();
  });

  it('E14: a loop that is late because other processes have the processor refuses no call', () => {
    const { admission, turn } = setup({ maxLagMs: 500 });
    void admission.strained;
    for (const [ms, cpuMs] of [
      [2_000, 100],
      [2_000, 800],
      [2_000, 2_000],
    ] as const) {
      turn(ms, cpuMs);
      expect(admission.refusal('ann', undefined)).toBeUndefined();
    }
    turn(2_000, 1_500);
    expect(admission.refusal('ann', undefined)).toMatchObject({ status: 503, option: 'maxLagMs' });
  });

  it('E14: a loop that is late without work of its own refuses calls once calls have waited that long for their turn', async () => {
    const { admission, begun, busy, call, dispatch, turn, turns } = setup({ maxLagMs: 500 });
    void admission.strained;
    busy();
    dispatch(call('waits', 'bob'));
    turn(400, 10);
    expect(admission.refusal('ann', undefined)).toBeUndefined();
    turn(600, 10);
    expect(admission.refusal('ann', undefined)).toBeUndefined();
    turn(600, 10);
    expect(admission.refusal('ann', undefined)).toMatchObject({ status: 503, option: 'maxLagMs' });
    await turns(40);
    expect(begun).toEqual(['waits']);
    expect(admission.refusal('ann', undefined)).toBeUndefined();
  });

  it('E14: a caller whose calls wait longer than maxLagMs for their turn gets 503, and others do not', () => {
    const { admission, call, dispatch, busy, time } = setup({ maxLagMs: 500 });
    busy();
    dispatch(call('1', 'heavy'));
    expect(admission.refusal('heavy', undefined)).toBeUndefined();
    time.ms += 501;
    expect(admission.refusal('heavy', undefined)).toMatchObject({ status: 503, option: 'maxLagMs' });
    expect(admission.refusal('light', undefined)).toBeUndefined();
  });

  it('E14: a call that would wait longer than maxLagMs behind those of its caller gets 503 at once', async () => {
    const { admission, begun, call, dispatch, busy, time, turns } = setup({ maxLagMs: 500 });
    busy();
    for (let id = 0; id < 48; id++) dispatch(call(String(id), 'heavy'));
    expect(admission.refusal('heavy', undefined)).toBeUndefined();
    // Each of its calls keeps the processor for 20 ms: the last of them waits for almost a second.
    while (begun.length < 12) {
      const before = begun.length;
      await turns(1);
      time.ms += 20 * (begun.length - before);
    }
    expect(admission.refusal('heavy', undefined)).toMatchObject({ status: 503, option: 'maxLagMs' });
    expect(admission.refusal('light', undefined)).toBeUndefined();
  });

  it('E14: maxLagMs Infinity refuses no call', () => {
    const { admission, call, dispatch, busy, time, turn } = setup({ maxLagMs: Infinity });
    busy();
    dispatch(call('1', 'ann'));
    time.ms += 1e6;
    turn(1e6);
    turn(1e6);
    expect(admission.refusal('ann', undefined)).toBeUndefined();
  });
});
