import { describe, expect, it } from 'vitest';
import type { McpCallEnd } from '../core/calls/mcp-instrumentation.js';
import { Timeline, ToolStatistics } from './statistics.js';

const ended = (name: string | undefined, more: Partial<McpCallEnd> = {}, method = 'tools/call'): McpCallEnd => ({
  call: { method, name } as McpCallEnd['call'],
  outcome: 'ok',
  durationMs: 1,
  handled: true,
  result: undefined,
  ...more,
});

describe('Timeline', () => {
  it('Timeline counts by period, and leaves out the one that has not ended', () => {
    const line = new Timeline(1_000, 3);
    for (const at of [10_000, 10_999, 11_000, 12_500]) line.add(at);
    expect(line.values(12_999)).toEqual([0, 2, 1]);
    expect(line.values(13_000)).toEqual([2, 1, 1]);
    expect(line.values(14_000)).toEqual([1, 1, 0]);
    expect(line.values(99_000)).toEqual([0, 0, 0]);
  });

  it('Timeline goes on in the same period when the clock is set back', () => {
    const line = new Timeline(1_000, 2);
    line.add(50_000);
    line.add(20_000);
    expect(line.values(51_000)).toEqual([0, 2]);
  });
});

describe('ToolStatistics', () => {
  it('ToolStatistics has percentiles of the latest 256 calls', () => {
    const tools = new ToolStatistics();
    for (let call = 0; call < 1_000; call++) tools.note(ended('old', { durationMs: 9_000 }), false, 0);
    for (let call = 1; call <= 256; call++) tools.note(ended('old', { durationMs: call }), call > 250, 0);
    expect(tools.rows(0)).toEqual([
      expect.objectContaining({ key: 'tool old', name: 'old', calls: 1_256, errors: 6, p50: 128, p95: 244 }),
    ]);
  });

  it('ToolStatistics keeps tools and methods of one name apart, and names that a client invents in one row', () => {
    const tools = new ToolStatistics();
    tools.note(ended('tools/list'), false, 0);
    tools.note(ended(undefined, {}, 'tools/list'), false, 0);
    for (const name of ['__proto__', 'constructor', 'x']) tools.note(ended(name, { handled: false }), true, 0);
    tools.note(ended('__proto__'), false, 0);
    expect(tools.rows(0).map(({ key, calls }) => [key, calls])).toEqual([
      ['tool tools/list', 1],
      ['tool __proto__', 1],
      ['method tools/list', 1],
      ['method unknown tools', 3],
    ]);
  });

  it('ToolStatistics has at most 300 tools, and the rest in one row', () => {
    const tools = new ToolStatistics();
    for (let tool = 0; tool < 1_000; tool++) tools.note(ended(`tool ${tool}`), false, 0);
    const rows = tools.rows(0);
    expect(rows).toHaveLength(301);
    expect(rows.at(-1)).toMatchObject({ name: 'others', calls: 700 });
  });
});
