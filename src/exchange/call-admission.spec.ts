import { describe, expect, it } from 'vitest';
import { LoopLag } from '../common/loop-lag.js';
import { type CallingClient, McpCall, type McpSessionInfo } from '../context/mcp-call.js';
import { CallAdmission } from './call-admission.js';

/** Long enough that calls wait for their turn. */
const LATE_MS = 200;

/** Admission in a process whose time stands still until the test says so. */
function setup(limits: Partial<ConstructorParameters<typeof CallAdmission>[0]> = {}) {
  const time = { ms: 0, timers: [] as (() => void)[] };
  const lag = new LoopLag({ now: () => time.ms, setTimeout: (task) => time.timers.push(task) });
  const begun: string[] = [];
  const admission: CallAdmission = new CallAdmission(
    { maxRunningCalls: 100, maxRunningCallsPerPrincipal: 50, maxLagMs: 1_000, ...limits },
    (call) => void begun.push(String(call.requestId)),
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
  /** The current turn of the loop takes so long; its timers run afterwards. */
  const turn = (ms: number) => {
    time.ms += ms;
    for (const timer of time.timers.splice(0)) timer();
  };
  const late = () => {
    void lag.recentMs;
    time.ms += LATE_MS;
  };
  const turns = async (count: number) => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
  };
  return { admission, begun, call, dispatch, turn, late, turns, time };
}

describe('admission of calls', () => {
  it('E14: a call begins at once while the event loop is in time', () => {
    const { begun, call, dispatch } = setup();
    dispatch(call('1', 'ann'));
    expect(begun).toEqual(['1']);
  });

  it('E14: in a late process, a caller with one call does not wait for the many calls of another', async () => {
    const { begun, call, dispatch, late, turns } = setup();
    late();
    for (let i = 0; i < 40; i++) dispatch(call(`heavy ${i}`, 'heavy'));
    dispatch(call('light', 'light'));
    expect(begun).toEqual([]);
    await turns(70);
    expect(begun.indexOf('light')).toBe(1);
    await turns(1_500);
    expect(begun).toHaveLength(41);
    expect(begun.filter((id) => id !== 'light')).toEqual(Array.from({ length: 40 }, (_, i) => `heavy ${i}`));
  });

  it('E14: anonymous callers of two sessions take turns', async () => {
    const { begun, call, dispatch, late, turns } = setup();
    late();
    for (let i = 0; i < 3; i++) dispatch(call(`a${i}`, undefined, 'session a'));
    dispatch(call('b', undefined, 'session b'));
    await turns(200);
    expect(begun).toEqual(['a0', 'b', 'a1', 'a2']);
  });

  it('P4: a call that was cancelled while it waited for its turn is not begun', async () => {
    const { admission, begun, call, dispatch, late, turns } = setup();
    late();
    const gone = dispatch(call('gone', 'ann'));
    dispatch(call('next', 'ann'));
    gone.cancelled(new Error('gone'));
    admission.leave(gone);
    await turns(80);
    expect(begun).toEqual(['next']);
  });

  it('E14: above maxRunningCallsPerPrincipal a caller gets 429, and others do not', () => {
    const { admission, call } = setup({ maxRunningCallsPerPrincipal: 2 });
    const first = call('1', 'ann');
    expect(admission.strained).toBe(false);
    call('2', 'ann');
    expect(admission.refusal('ann', undefined)).toMatchObject({
      ...{ status: 429, headers: { 'Retry-After': '1' }, option: 'maxRunningCallsPerPrincipal' },
    });
    expect(admission.refusal('bob', undefined)).toBeUndefined();
    expect(admission.refusal(undefined, 's')).toBeUndefined();
    admission.leave(first);
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

  it('E14: a caller whose calls wait longer than maxLagMs for their turn gets 503, and others do not', () => {
    const { admission, call, dispatch, late, time } = setup({ maxLagMs: 500 });
    late();
    dispatch(call('1', 'heavy'));
    expect(admission.refusal('heavy', undefined)).toBeUndefined();
    time.ms += 501;
    expect(admission.refusal('heavy', undefined)).toMatchObject({ status: 503, option: 'maxLagMs' });
    expect(admission.refusal('light', undefined)).toBeUndefined();
  });

  it('E14: maxLagMs Infinity refuses no call', () => {
    const { admission, call, dispatch, late, time, turn } = setup({ maxLagMs: Infinity });
    late();
    dispatch(call('1', 'ann'));
    time.ms += 1e6;
    turn(1e6);
    turn(1e6);
    expect(admission.refusal('ann', undefined)).toBeUndefined();
  });
});
