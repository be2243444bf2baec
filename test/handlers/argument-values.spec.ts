import { Body, Controller, Injectable, Post, ValidationPipe } from '@nestjs/common';
import { APP_PIPE } from '@nestjs/core';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import { Type } from 'class-transformer';
import { IsString, ValidateNested } from 'class-validator';
import { McpArgs, McpMethod, Prompt, Tool, type ToolOptions } from 'nestjs-mcp-streamable';
import * as v from 'valibot';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, TestApp } from '../support/app.js';
import { registryOf, sharedApp } from '../support/test-apps.js';

class Line {
  @IsString() item!: string;
}
class LinesDto {
  @ValidateNested({ each: true }) @Type(() => Line) lines!: Line[];
}

const SCHEMAS = {
  zod: z.object({ list: z.array(z.string()), more: z.unknown().optional() }),
  zod_checked: z.object({ list: z.array(z.string().min(1)) }),
  zod_closed: z.strictObject({ list: z.array(z.string()).optional() }),
  arktype: type({ list: 'string[]' }),
  valibot: toStandardJsonSchema(v.object({ list: v.array(v.string()) })),
  json: { type: 'object', properties: { list: { type: 'array', items: { type: 'string' } } } },
  json_closed: { type: 'object', additionalProperties: false },
};

@Injectable()
class Tools {
  @Tool({ name: 'dto' })
  dto(@McpArgs() { lines }: LinesDto): string {
    return `served ${lines.length}`;
  }
  @Tool({ name: 'dto_raised', maxValues: 50_000 })
  raised(@McpArgs() { lines }: LinesDto): string {
    return `served ${lines.length}`;
  }
  @Tool({ name: 'json_of_dto', inputSchema: { type: 'object' } })
  piped(@McpArgs(new ValidationPipe()) { lines }: LinesDto): string {
    return `served ${lines.length}`;
  }
  @Prompt({ name: 'write', inputSchema: z.object({ about: z.string() }).catchall(z.string().min(9)) })
  write(): string {
    return 'Write.';
  }
  @McpMethod('com.example/search', z.object({ list: z.array(z.string().min(1)) }))
  search(): object {
    return { served: true };
  }
}

@Controller('lines')
class Routes {
  @Post()
  @Tool({ name: 'route' })
  route(@Body() { lines }: LinesDto): string {
    return `served ${lines.length}`;
  }
}

const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item);
const lines = (count: number, item: unknown): object => ({ lines: many(count, { item }) });

describe.each(ONE_ADAPTER)('arguments of many values on %s', (adapter) => {
  const start = sharedApp(() =>
    TestApp.start({
      adapter,
      providers: [Tools, { provide: APP_PIPE, useFactory: () => new ValidationPipe({ transform: true }) }],
      module: { controllers: [Routes] },
    }),
  );

  /** Calls a tool of an app that has one for each schema. @returns the text of the result, with what failed in front */
  async function called(name: string, args: object, options: Partial<ToolOptions> = {}): Promise<string> {
    const app = await start();
    const schema: unknown = SCHEMAS[name as keyof typeof SCHEMAS];
    const added =
      schema === undefined
        ? undefined
        : registryOf(app).registerTool({ name, inputSchema: schema as never, handler: () => 'served', ...options });
    try {
      const client = await app.client().initialize();
      const { result } = await (await client.call(name, args)).json();
      await client.delete();
      return `${result.isError ? 'failed: ' : ''}${result.content[0].text}`;
    } finally {
      added?.remove();
    }
  }

  it.each(['zod', 'arktype', 'json'])(
    'D36: arguments of many values for %s get the first problem, and few get all',
    async (name) => {
      expect(await called(name, { list: many(900, 1) })).toMatch(
        /list\[?\.?1\b.*; and 892 more\.$|list\.1.*and 892 more\.$/,
      );
      const first = await called(name, { list: many(6_000, 1) });
      expect(first).toMatch(/^failed: The arguments are not valid: /);
      expect(first).not.toContain('; ');
      expect(await called(name, { list: many(6_000, 'x') })).toBe('served');
    },
  );

  it('D36: arguments of many values are refused where the library finds all problems, unless a tool takes more', async () => {
    const refused =
      'failed: The arguments are not valid: they have more than 5000 values ("maxValues"). Send fewer at once, or as one text.';
    for (const name of ['zod_checked', 'valibot']) {
      expect(await called(name, { list: many(5_000, 'x') })).toBe(refused);
      expect(await called(name, { list: many(4_990, 'x') })).toBe('served');
      expect(await called(name, { list: many(5_000, 'x') }, { maxValues: 20_000 })).toBe('served');
    }
    for (const name of ['dto', 'route', 'json_of_dto']) {
      expect(await called(name, lines(2_500, 'x'))).toBe(refused);
      expect(await called(name, lines(1_000, 'x'))).toBe('served 1000');
    }
    expect(await called('dto_raised', lines(2_500, 'x'))).toBe('served 2500');
  });

  it('D36: arguments of many values are refused above a lower limit of a tool, whatever its schema', async () => {
    for (const name of ['zod', 'arktype', 'json']) {
      expect(await called(name, { list: many(100, 'x') }, { maxValues: 100 })).toContain('more than 100 values');
      expect(await called(name, { list: many(99, 'x') }, { maxValues: 100 })).toBe('served');
    }
    const app = await start();
    for (const maxValues of [0, 1.5, '5', null]) {
      const register = () =>
        registryOf(app).registerTool({ name: 'x', maxValues: maxValues as number, handler: () => '' });
      expect(register).toThrow('its "maxValues" must be a whole number of at least 1');
    }
  });

  it('D36: arguments of many values of a prompt and of a method have the limit too', async () => {
    const client = await (await start()).client().initialize();
    const args = Object.fromEntries(many(5_001, 'x').map((text, at) => [`k${at}`, text]));
    const ask = async (method: string, params: object): Promise<string> =>
      (await (await client.post({ jsonrpc: '2.0', id: 1, method, params })).json()).error.message;
    expect(await ask('prompts/get', { name: 'write', arguments: { ...args, about: 'x' } })).toContain(
      'more than 5000 values',
    );
    expect(await ask('com.example/search', { list: many(5_001, 'x') })).toContain('more than 5000 values');
    await client.delete();
  });

  it('the text about arguments is short, whatever a client calls them', async () => {
    const name = 'n'.repeat(10_000);
    const names = Object.fromEntries(many(100, 1).map((one, at) => [`${at}`.repeat(100), one]));
    const cases: [string, object][] = [
      ...Object.keys(SCHEMAS).flatMap((tool): [string, object][] => [
        [tool, { list: name, [name]: 1 }],
        [tool, { list: [name, 1, { [name]: 1 }], ...names }],
        [tool, { ...names, list: names }],
      ]),
      ['dto', lines(100, { [name.slice(0, 5_000)]: 1 })],
      ['route', lines(100, { [name.slice(0, 5_000)]: 1 })],
      ['json_of_dto', lines(100, 1)],
    ];
    for (const [tool, args] of cases) {
      const text = await called(tool, args);
      expect([tool, text.slice(0, 2_500)]).toEqual([tool, text]);
    }
  });
});
