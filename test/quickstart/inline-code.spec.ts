import { expect, it } from 'vitest';
import { compileInlineCode, inlineCodeOf, PAGES, unknownNamesOf } from './inline-code.js';

const pieces = PAGES.flatMap((page) => inlineCodeOf(page));

it('calls, decorators and options within the texts of pages compile', async () => {
  const { compiled, faults } = await compileInlineCode(pieces);
  expect(compiled).toBeGreaterThan(200);
  expect(faults).toEqual([]);
});

it('names of the package within the texts of pages are exported', () => {
  // The page of the options is made from their comments, with the names of their types.
  const others = pieces.filter(({ page }) => page !== 'docs/options.md');
  expect(others.flatMap(unknownNamesOf)).toEqual([]);
});

it('a call, an option and a decorator that do not compile are found', async () => {
  const wrong = [
    `image(bytes, 'image/png')`,
    'serveMcpStdio(AppModule)',
    `responseMode: 'xml'`,
    'timeoutMS: 5',
    '@Tool({ nam: 1 })',
    '@McpArgs(1, 2, 3) order: Order',
    'ctx.elict(key, …)',
    `new McpStderrLogger({ jsn: true })`,
  ];
  const right = [
    'image(bytes, …)',
    `sessions: 'off'`,
    '@Tool({ …, timeoutMs: 5 })',
    '@McpArgs() order: Order',
    'ctx.log(…)',
  ];
  const planted = [...wrong, ...right].map((code, at) => ({ page: 'page', line: at, code }));
  const { faults } = await compileInlineCode(planted);
  expect(new Set(faults.map((fault) => Number(/:(\d+)/.exec(fault)![1])))).toEqual(new Set(wrong.keys()));
});
