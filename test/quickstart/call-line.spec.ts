import { describe, expect, it } from 'vitest';
import type { McpCallEnd, McpCallOutcome } from 'nestjs-mcp-streamable';
import { callLine } from '../../examples/quickstart/call-line.js';

const AT = new Date(2026, 0, 2, 3, 4, 5);

function ended(call: Partial<McpCallEnd['call']>, outcome: McpCallOutcome = 'ok', durationMs = 12.4): McpCallEnd {
  const usual = { era: 'legacy', method: 'tools/call', name: undefined, uri: undefined, requestId: 1 } as const;
  const caller = { sessionId: undefined, principal: undefined, protocolVersion: '2025-11-25', meta: undefined };
  const sent = { arguments: undefined, clientInfo: { name: 'agent', version: '1' }, scopes: undefined };
  return { call: { ...usual, ...caller, ...sent, ...call }, outcome, durationMs, handled: true, result: undefined };
}

describe('the line for a call', () => {
  it.each([
    ['ok', 'ok'],
    ['tool_error', 'tool error'],
    ['denied', 'denied'],
    ['cancelled', 'cancelled'],
    [-32602, 'error -32602'],
  ] as const)('the line for a call says when, what, how it ended (%s) and how long it took', (outcome, text) => {
    expect(callLine(ended({ name: 'search_docs' }, outcome), AT)).toBe(
      `03:04:05  tools/call search_docs  ${text}  12 ms`,
    );
  });

  it.each([
    [{ method: 'tools/list' }, 'tools/list'],
    [{ method: 'resources/read', uri: 'docs:///docs/a%20b.md' }, 'resources/read docs:///docs/a%20b.md'],
    [{ name: 'x'.repeat(1_000_000) }, `tools/call ${'x'.repeat(60)}…`],
    [{ name: '' }, 'tools/call ""'],
  ])('the line for a call names what was called: %#', (call, text) => {
    expect(callLine(ended(call), AT)).toBe(`03:04:05  ${text}  ok  12 ms`);
  });

  it.each([
    ['a\n03:04:05  tools/call b', String.raw`"a\n03:04:05  tools/call b"`],
    ['a\u001B[2J\r', String.raw`"a\u001b[2J\r"`],
    ['a\u009B2J\u2028\u202Eb\u200Bc', String.raw`"a\u009b2J\u2028\u202eb\u200bc"`],
    ['b  ok  1 ms', '"b  ok  1 ms"'],
    ['\u{1F600}', String.raw`"\ud83d\ude00"`],
    ['say "hi"', String.raw`"say \"hi\""`],
  ])('the line for a call shows %j in ASCII and in quotes: it makes no other line, cell or command', (name, shown) => {
    expect(callLine(ended({ name }), AT)).toBe(`03:04:05  tools/call ${shown}  ok  12 ms`);
    expect(callLine(ended({ method: name }), AT)).toBe(`03:04:05  ${shown}  ok  12 ms`);
  });
});
