import { Logger } from '@nestjs/common';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { type CallingClient, currentMcpCall, McpCall, runInCall } from '../calls/mcp-call.js';
import type { McpCallEnd } from '../calls/mcp-instrumentation.js';
import { PluginCallHooks, type PluginsOfCalls } from './call-hooks.js';
import type { McpCallHooks, McpEndpointPlugin } from './mcp-plugin.js';

const END = { outcome: 'ok' } as McpCallEnd;
const from = { identity: () => ({}) } as unknown as CallingClient;

let heard: string[];
let errors: string[];

/** Notes what it is asked, and hears. */
const listener = (name: string, hooks: McpCallHooks = {}): McpEndpointPlugin => ({
  call: () => {
    heard.push(`${name} asked`);
    const note = (what: string) => () => void heard.push(`${name} ${what}${currentMcpCall() ? ' in a call' : ''}`);
    return { answered: note('answered'), ended: note('ended'), ...hooks };
  },
});
const failing = (call: () => never | Promise<never>): McpEndpointPlugin => ({ call: call as never });

function setup(plugins: Partial<PluginsOfCalls>): { call: McpCall; hooks: PluginCallHooks } {
  const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} } as const;
  const call = new McpCall({ era: 'modern', principal: undefined, request: {} } as never, message, from, {} as never);
  const hooks = new PluginCallHooks(call, { observers: [], recorders: [], others: [], ...plugins });
  return { call, hooks };
}

describe('the hooks of plugins of a call', () => {
  beforeEach(() => {
    heard = [];
    errors = [];
    vi.spyOn(Logger, 'error').mockImplementation((error: unknown) => void errors.push(String(error)));
    vi.spyOn(Logger.prototype, 'error').mockImplementation((error: unknown) => void errors.push(String(error)));
  });
  afterEach(() => vi.restoreAllMocks());

  it('plugins of the rings around the target hear of a call that ends before its target is known, the others do not', () => {
    const { hooks } = setup({
      observers: [listener('observer')],
      recorders: [listener('recorder')],
      others: [listener('other')],
    });
    hooks.observe(() => 'the list is asked for');
    hooks.over(END, ['answered', 'ended']);
    expect(heard).toEqual([
      'observer asked',
      'recorder asked',
      'observer answered',
      'recorder answered',
      'observer ended',
      'recorder ended',
    ]);
  });

  it('each plugin hears of each phase of the end once, outside of the call', () => {
    const { call, hooks } = setup({ observers: [listener('observer')], others: [listener('other')] });
    runInCall(call, () => hooks.observe(() => hooks.serve(() => 'served')));
    heard.length = 0;
    runInCall(call, () => hooks.over(END, ['answered']));
    expect(heard).toEqual(['observer answered', 'other answered']);
    hooks.over(END, ['answered', 'ended']);
    hooks.over(END, ['ended']);
    expect(heard).toEqual(['observer answered', 'other answered', 'observer ended', 'other ended']);
  });

  it('the answer of a call is reported before the end of its task, also when the task has ended before', () => {
    const ofTask = { outcome: 'cancelled' } as McpCallEnd;
    const ends: unknown[] = [];
    const note = (phase: string) => (end: McpCallEnd) => void ends.push([phase, end]);
    const { hooks } = setup({ observers: [listener('a', { answered: note('answered'), ended: note('ended') })] });
    hooks.observe(() => 'served');
    hooks.over(ofTask, ['ended']);
    expect(ends).toEqual([]);
    hooks.over(END, ['answered']);
    expect(ends).toEqual([
      ['answered', END],
      ['ended', ofTask],
    ]);
  });

  it.each<[string, () => never | Promise<never>]>([
    [
      'throws',
      () => {
        throw new Error('It fails.');
      },
    ],
    ['rejects', () => Promise.reject(new Error('It fails.'))],
  ])('a plugin that %s when it is asked about a call keeps no other from it', async (_, call) => {
    const { hooks } = setup({ observers: [failing(call), listener('observer')] });
    expect(hooks.observe(() => hooks.serve(() => 'served'))).toBe('served');
    await vi.waitFor(() => expect(errors).toHaveLength(1));
    expect(heard).toEqual(['observer asked']);
  });

  it('a plugin that waits longer than the call is open does not serve it', async () => {
    let serve: (() => unknown) | undefined;
    const around = (run: () => unknown): Promise<unknown> =>
      new Promise((resolve) => (serve = () => resolve(new Promise((done) => done(run())))));
    const { call, hooks } = setup({ observers: [listener('observer', { around: around as never })] });
    const run = vi.fn();
    const served = hooks.observe(run) as unknown as Promise<unknown>;
    call.cancelled(new Error('The client has gone.'));
    serve!();
    await expect(served).rejects.toThrow('The call ended before it was served.');
    expect(run).not.toHaveBeenCalled();
  });
});
