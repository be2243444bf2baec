import { expect, it } from 'vitest';
import { compileInlineCode, inlineCodeOf, PAGES } from './inline-code.js';

it('calls, decorators and options within the texts of pages compile', async () => {
  const pieces = PAGES.flatMap((page) => inlineCodeOf(page));
  const { compiled, faults } = await compileInlineCode(pieces);
  expect(compiled).toBeGreaterThan(200);
  expect(faults).toEqual([]);
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
  const pieces = [...wrong, ...right].map((code, at) => ({ page: 'page', line: at, code }));
  const { faults } = await compileInlineCode(pieces);
  expect(new Set(faults.map((fault) => Number(/:(\d+)/.exec(fault)![1])))).toEqual(new Set(wrong.keys()));
});
