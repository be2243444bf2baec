import { expect, it } from 'vitest';
import { compileInlineCode, inlineCodeOf, PAGES, unknownNamesOf } from './inline-code.js';

const pieces = PAGES.flatMap((page) => inlineCodeOf(page));
const WRONG = [
  `image(bytes, 'image/png')`,
  'serveMcpStdio(AppModule)',
  `responseMode: 'xml'`,
  'timeoutMS: 5',
  '@Tool({ nam: 1 })',
  '@McpArgs(1, 2, 3) order: Order',
  'ctx.elict(key, …)',
  'McpRegistry.dissable()',
  `new McpStderrLogger({ jsn: true })`,
];
const RIGHT = [
  'image(bytes, …)',
  `sessions: 'off'`,
  '@Tool({ …, timeoutMs: 5 })',
  '@McpArgs() order: Order',
  'ctx.log(…)',
];
const planted = [...WRONG, ...RIGHT].map((code, line) => ({ page: 'planted', line, code }));
const compiled = compileInlineCode([...planted, ...pieces]);

it('calls, decorators and options within the texts of pages compile', async () => {
  const { files, faults } = await compiled;
  expect(files).toBeGreaterThan(200);
  expect(faults.filter((fault) => !fault.startsWith('planted:'))).toEqual([]);
});

it('names of the package within the texts of pages are exported', () => {
  // The page of the options is made from their comments, with the names of their types.
  const others = pieces.filter(({ page }) => page !== 'docs/options.md');
  expect(others.flatMap(unknownNamesOf)).toEqual([]);
});

it('a call, an option and a decorator that do not compile are found', async () => {
  const { faults } = await compiled;
  const lines = faults.flatMap((fault) => /^planted:(\d+)/.exec(fault)?.[1] ?? []);
  expect(new Set(lines.map(Number))).toEqual(new Set(WRONG.keys()));
});
