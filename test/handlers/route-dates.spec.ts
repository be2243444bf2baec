import {
  Body,
  Controller,
  Get,
  Param,
  ParseDatePipe,
  ParseIntPipe,
  type PipeTransform,
  Post,
  Query,
} from '@nestjs/common';
import { McpStreamableModule, Tools } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ADAPTERS, serverInfo, TestApp } from '../support/app.js';
import { sharedApp } from '../support/test-apps.js';

const FIXED = new Date(0);
class YearPipe implements PipeTransform<string, Date> {
  transform(text: string): Date {
    return new Date(`${text}-01-01T00:00:00Z`);
  }
}
const seen = (value: unknown): object => ({ type: value instanceof Date ? 'Date' : typeof value, value });

@Controller('dates')
@Tools()
class DatesController {
  @Get('query')
  query(@Query('d', ParseDatePipe) d: Date): object {
    return seen(d);
  }
  @Get('param/:d')
  param(@Param('d', ParseDatePipe) d: Date): object {
    return seen(d);
  }
  @Post('body')
  body(@Body('d', ParseDatePipe) d: Date): object {
    return seen(d);
  }
  @Get('default')
  withDefault(@Query('d', new ParseDatePipe({ optional: true, default: () => FIXED })) d: Date): object {
    return seen(d);
  }
  @Post('optional')
  optional(@Body('d', new ParseDatePipe({ optional: true })) d: Date | null): object {
    return seen(d);
  }
  @Post('number')
  number(@Body('d', new ParseIntPipe({ optional: true })) d: number | null): object {
    return seen(d);
  }
  @Get('bare')
  bare(@Query('d') d: Date): object {
    return seen(d);
  }
  @Get('bare-param/:d')
  bareParam(@Param('d') d: Date): object {
    return seen(d);
  }
  @Post('bare-body')
  bareBody(@Body('d') d: Date): object {
    return seen(d);
  }
  @Get('own')
  own(@Query('d', YearPipe) d: Date): object {
    return seen(d);
  }
}

type Case = readonly [tool: string, d?: string | number | null];

const CASES: readonly Case[] = [
  ...['2026-01-01', '2026-01-01T12:00:00Z', '2026-02-30', 'January 5, 2026', 'no date'].flatMap((d): Case[] => [
    ['query', d],
    ['param', d],
    ['body', d],
    ['bare', d],
    ['bare_param', d],
    ['bare_body', d],
  ]),
  ['query'],
  ['body', 1_767_225_600_000],
  ['body'],
  ['with_default'],
  ['with_default', '2026-01-01'],
  ['optional'],
  ['optional', null],
  ['number', null],
  ['number'],
  ['number', 5],
  ['own', '2026'],
];

/** Calls the route. */
async function routed(base: string, [tool, d]: Case): Promise<unknown> {
  const [part] = /body|number|optional|param/.exec(tool) ?? ['query'];
  const name = { with_default: 'default' }[tool] ?? tool.replace('_', '-');
  const url = new URL(`${base}/dates/${name}`);
  if (part === 'param') url.pathname += `/${encodeURIComponent(String(d))}`;
  if (part === 'query' && d !== undefined) url.searchParams.set('d', String(d));
  const isPost = !['param', 'query'].includes(part);
  const init = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ d }) };
  const response = await fetch(url, isPost ? init : {});
  return response.ok ? response.json() : 'refused';
}

describe.each(ADAPTERS)('a date in a route that is a tool, on %s', (adapter) => {
  const started = sharedApp(() =>
    TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo })], controllers: [DatesController] }),
  );

  it.each(['legacy', 'modern'])(
    '%s: a date reaches the method as it does on the route: through a pipe, or as the text without one',
    async (era) => {
      const app = await started();
      const client = era === 'modern' ? app.modern() : await app.client().initialize('2025-11-25');
      for (const each of CASES) {
        const [tool, d] = each;
        const { result } = await (await client.call(`dates_${tool}`, { d })).json();
        const got = result.isError ? 'refused' : result.structuredContent;
        expect([each, got]).toEqual([each, await routed(app.base, each)]);
      }
    },
  );
});
