import { describe, expect, it } from 'vitest';
import { LabelNames } from './conventions.js';

const end = (method: string, name: string | undefined, more: { handled?: boolean; source?: string } = {}) => ({
  call: { method, name },
  handled: true,
  ...more,
});

describe('the names of calls as labels', () => {
  it('the names of calls as labels are bounded, whatever a server of the app answers to', () => {
    const names = new LabelNames();
    const given = Array.from({ length: 3_000 }, (_, n) => names.name(end('tools/call', `tool_${n}`)));
    expect(new Set(given).size).toBe(1_001);
    expect(given.at(-1)).toBe('_OTHER');
    expect(names.name(end('tools/call', 'tool_0'))).toBe('tool_0');
    const methods = Array.from({ length: 3_000 }, (_, n) => names.method(end(`odd/${n}`, undefined)));
    expect(new Set(methods)).toEqual(new Set(['_OTHER']));
    expect(names.method(end('tools/call', undefined))).toBe('tools/call');
    expect(new LabelNames().name(end('tools/call', 'x'.repeat(100_000)))).toHaveLength(1_025);
  });

  it('the names of calls as labels are those of tools and prompts that exist, and of catalogues', () => {
    const names = new LabelNames();
    expect(names.name(end('tools/call', 'add'))).toBe('add');
    expect(names.name(end('tools/call', 'plugin', { source: 'Plugins' }))).toBe('Plugins.*');
    expect(names.name(end('tools/call', 'odd', { handled: false }))).toBeUndefined();
    expect(names.name(end('resources/read', 'odd'))).toBeUndefined();
    expect(names.method(end('odd', undefined, { handled: false }))).toBe('_OTHER');
  });
});
