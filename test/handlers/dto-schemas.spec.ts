import { Body, Controller, Injectable, Post, UsePipes, ValidationPipe } from '@nestjs/common';
import { APP_PIPE } from '@nestjs/core';
import { Type } from 'class-transformer';
import { IsInt, IsString, ValidateNested } from 'class-validator';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps, type TestAppsOptions } from '../support/test-apps.js';

class Line {
  @IsString() item!: string;
}
class OrderDto {
  @IsInt() count = 1;
  @ValidateNested() @Type(() => Line) line!: Line;
}

const STRICT = new ValidationPipe({ whitelist: true, forbidNonWhitelisted: true, transform: true });

@Injectable()
class Tools {
  @Tool({ name: 'order' })
  order(@McpArgs() { count, line }: OrderDto): string {
    return `${count} ${line.item}`;
  }
}

@Injectable()
class StrictTools {
  @UsePipes(STRICT)
  @Tool({ name: 'method' })
  method(@McpArgs() { count }: OrderDto): string {
    return `${count}`;
  }
  @Tool({ name: 'parameter', inputSchema: OrderDto })
  parameter(@McpArgs(STRICT) { count }: OrderDto): string {
    return `${count}`;
  }
}

@Controller('strict')
class StrictRoutes {
  @Post()
  @Tool({ name: 'route' })
  route(@Body(STRICT) { count }: OrderDto): string {
    return `${count}`;
  }
}

interface Schema {
  readonly additionalProperties?: boolean;
  readonly properties: { readonly line: Schema };
}

describe.each(ONE_ADAPTER)('the schema of a DTO, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });
  /** Whether the tools say that there are no other arguments, by their names. */
  async function closed(options: TestAppsOptions): Promise<Record<string, unknown>> {
    const client = await (await start(options)).client().initialize();
    const { result } = await (await client.post({ jsonrpc: '2.0', id: 1, method: 'tools/list' })).json();
    const listed = result.tools as { name: string; inputSchema: Schema }[];
    return Object.fromEntries(
      listed.map(({ name, inputSchema: { additionalProperties, properties } }) => [
        name,
        [additionalProperties, properties.line.additionalProperties],
      ]),
    );
  }

  it('the schema of a DTO forbids other properties where a pipe refuses them: of the app, a method, a parameter or a route', async () => {
    expect(await closed({ providers: [Tools] })).toEqual({ order: [undefined, undefined] });
    const lenient = { provide: APP_PIPE, useValue: new ValidationPipe({ whitelist: true }) };
    expect(await closed({ providers: [Tools, lenient] })).toEqual({ order: [undefined, undefined] });
    expect(await closed({ providers: [Tools, { provide: APP_PIPE, useValue: STRICT }] })).toEqual({
      order: [false, false],
    });
    expect(await closed({ providers: [Tools], configure: (app) => void app.useGlobalPipes(STRICT) })).toEqual({
      order: [false, false],
    });
    expect(await closed({ providers: [StrictTools], module: { controllers: [StrictRoutes] } })).toEqual({
      method: [false, false],
      parameter: [false, false],
      route: [false, false],
    });
  });

  it('the schema of a DTO has defaults that the method gets, and the pipe refuses what the schema forbids', async () => {
    const app = await start({ providers: [Tools], configure: (nest) => void nest.useGlobalPipes(STRICT) });
    const client = await app.client().initialize();
    const call = async (args: Record<string, unknown>) => (await (await client.call('order', args)).json()).result;
    expect(await call({ line: { item: 'lamp' } })).toEqual({ content: [{ type: 'text', text: '1 lamp' }] });
    expect(await call({ line: { item: 'lamp' }, more: 1 })).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('property more should not exist') }],
    });
  });
});
