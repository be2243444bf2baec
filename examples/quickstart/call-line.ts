import type { McpCallEnd, McpCallOutcome } from 'nestjs-mcp-streamable';

/** Characters of a name that are shown. */
const MAX_NAME = 60;

/**
 * One line for a call that has ended: `14:03:07  tools/call search_docs  ok  12 ms`.
 *
 * @param at when it ended; the line has the time of the clock on the wall
 */
export function callLine({ call, outcome, durationMs }: McpCallEnd, at: Date): string {
  const what = [call.method, call.name ?? call.uri]
    .filter((text) => text !== undefined)
    .map(harmless);
  const cells = [
    at.toTimeString().slice(0, 8),
    what.join(' '),
    textOf(outcome),
    `${Math.round(durationMs)} ms`,
  ];
  return cells.join('  ');
}

function textOf(outcome: McpCallOutcome): string {
  if (typeof outcome === 'number') return `error ${outcome}`;
  return outcome === 'tool_error' ? 'tool error' : outcome;
}

/**
 * A name as clients may send it: with spaces it could pass for other cells, with
 * control characters for other lines, or
 * make the terminal do things. What is more than letters, digits and a few signs is
 * shown as JSON in ASCII.
 */
function harmless(name: string): string {
  const cut = name.length > MAX_NAME ? `${name.slice(0, MAX_NAME)}…` : name;
  if (/^[\w.:/+%-]+…?$/.test(cut)) return cut;
  return JSON.stringify(cut).replaceAll(
    /[^ -~…]/g,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
