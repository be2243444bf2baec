/** What every server under measurement serves, so that all do the same work. */

/** How many tools add; `TOOLS` changes it to see what each tool costs a session. */
const ADDERS = Number(process.env['TOOLS'] ?? 10);

/** `add`, `add1`, `add2`…: each adds two numbers. */
export const ADDING_TOOLS = Array.from({ length: ADDERS }, (_, index) => (index === 0 ? 'add' : `add${index}`));

export const ADD_DESCRIPTION = 'Adds two numbers';
export const PROGRESS_DESCRIPTION = 'Reports progress n times';

export const SERVER_INFO = { name: 'bench', version: '1.0.0' };

export interface ToolResult {
  content: { type: 'text'; text: string }[];
  [key: string]: unknown;
}

export function sum({ a, b }: { a: number; b: number }): ToolResult {
  return text(String(a + b));
}

/** One report after the other, each handed over before the next is made: the same loop in every server. */
export async function reportAll(
  { n }: { n: number },
  report: (progress: number, total: number) => Promise<void>,
): Promise<ToolResult> {
  for (let done = 1; done <= n; done++) await report(done, n);
  return text(`${n} reported`);
}

function text(value: string): ToolResult {
  return { content: [{ type: 'text', text: value }] };
}

/** What tokens of the work `jwt` are for. */
export const JWT_AUDIENCE = 'https://bench.test/mcp';
