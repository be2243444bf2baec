import { Body, Injectable, ParseIntPipe, Req, UseInterceptors, type Type } from '@nestjs/common';
import { IsInt, IsString, Min } from 'class-validator';
import {
  Complete,
  McpHandlerDefinitionError,
  McpArgs,
  McpContext,
  McpCtx,
  McpStreamableModule,
  Prompt,
  ResourceTemplate,
  Tool,
  type McpContext as OnlyTheType,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { testApps } from '../support/test-apps.js';
import { RecordedLog } from '../support/recorded-log.js';
import { serverInfo, startFailure } from '../support/app.js';

class OrderDto {
  @IsString()
  item!: string;
  @IsInt()
  @Min(1)
  count!: number;
}

class WithoutRules {
  item!: string;
}

const OrderId = { type: 'object', properties: { id: { type: 'string' } } };
const kindOf = (value: unknown): string =>
  value instanceof McpContext ? 'context' : (JSON.stringify(value) ?? 'nothing');

@Injectable()
class Mixed {
  @Tool({ name: 'behind', inputSchema: OrderId })
  behind(@McpArgs('id') id: string, ctx: McpContext): string {
    return [id, ctx].map(kindOf).join();
  }

  @Tool({ name: 'before', inputSchema: OrderId })
  before(ctx: OnlyTheType, @McpArgs() args: object): string {
    return [ctx, args].map(kindOf).join();
  }

  @Tool({ name: 'between', inputSchema: OrderId })
  between(@McpArgs('id') id: string, ctx: unknown, @Req() request: { method: string }): string {
    return [id, ctx, request.method].map(kindOf).join();
  }

  @Tool({ name: 'by_type', inputSchema: OrderId })
  byType(@McpArgs('id') id: string, one: McpContext, other?: McpContext, limit = 5): string {
    return [id, one, other, limit].map(kindOf).join();
  }

  @Tool({ name: 'first' })
  first(ctx: McpContext): string {
    return kindOf(ctx);
  }

  @Tool({ name: 'intercepted', inputSchema: OrderId })
  @UseInterceptors({ intercept: (_: unknown, next: { handle(): unknown }) => next.handle() } as never)
  intercepted(@McpArgs('id') id: string, ctx: McpContext): string {
    return [id, ctx].map(kindOf).join();
  }

  @ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order' })
  order(@McpArgs('id') id: string, ctx: McpContext): string {
    return [id, ctx].map(kindOf).join();
  }

  @Complete({ template: 'orders://{id}', argument: 'id' })
  ids(@McpArgs('value') value: string, ctx: McpContext): string[] {
    return [value, ctx].map(kindOf);
  }
}

@Injectable()
class ByClass {
  @Tool({ name: 'decorated' })
  decorated(@McpArgs() dto: OrderDto, @McpArgs('count') count: number): string {
    return `${dto instanceof OrderDto} ${dto.item} ${count}`;
  }

  @Tool({ name: 'undecorated' })
  undecorated(dto: OrderDto, ctx: McpContext): string {
    return `${dto instanceof OrderDto} ${dto.item} ${kindOf(ctx)}`;
  }

  @Tool({ name: 'as_body' })
  asBody(@Body() dto: OrderDto): string {
    return `${dto instanceof OrderDto}`;
  }

  @Tool({ name: 'given', inputSchema: OrderId })
  given(@McpArgs() dto: OrderDto): string {
    return `${dto instanceof OrderDto}`;
  }

  @Tool({ name: 'open', inputSchema: { type: 'object' } })
  open(@McpArgs() args: Record<string, unknown>): string {
    return JSON.stringify(args);
  }

  @Tool({ name: 'nothing' })
  nothing(_args: object, ctx: McpContext): string {
    return kindOf(ctx);
  }

  @Prompt({ name: 'prompted' })
  prompted(@McpArgs() dto: OrderDto): string {
    return dto.item;
  }

  @Prompt({ name: 'listed', arguments: [{ name: 'item', required: true }] })
  listed(@McpArgs('item') item: string): string {
    return item;
  }
}

describe('the parameters of handlers', () => {
  const start = testApps('fastify', { shared: true });
  const log = new RecordedLog();
  afterEach(() => log.release());

  const callOf = async (provider: Type) => {
    const app = await start({ providers: [provider] });
    const client = await app.client().initialize();
    const request = async (method: string, params: object) => {
      const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params });
      return (await response.json()).result;
    };
    const tool = async (name: string, args: object = {}): Promise<string> =>
      (await request('tools/call', { name, arguments: args })).content[0].text;
    return { request, tool };
  };
  const failureOf = async (provider: Type): Promise<Error> => {
    log.attach();
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    const error = await startFailure('fastify', () => ({ imports, providers: [provider] }));
    expect(error).toBeInstanceOf(McpHandlerDefinitionError);
    return error;
  };

  it('the parameters of handlers get the context without a decorator, beside decorated ones', async () => {
    const { tool, request } = await callOf(Mixed);
    expect(await tool('behind', { id: '7' })).toBe('"7",context');
    expect(await tool('before', { id: '7' })).toBe('context,{"id":"7"}');
    expect(await tool('between', { id: '7' })).toBe('"7",context,"POST"');
    expect(await tool('by_type', { id: '7' })).toBe('"7",context,context,5');
    expect(await tool('first')).toBe('context');
    expect(await tool('intercepted', { id: '7' })).toBe('"7",context');
    const { contents } = await request('resources/read', { uri: 'orders://7' });
    expect(contents[0].text).toBe('"7",context');
    const { completion } = await request('completion/complete', {
      ref: { type: 'ref/resource', uri: 'orders://{id}' },
      argument: { name: 'id', value: 'x' },
    });
    expect(completion.values).toEqual(['"x"', 'context']);
  });

  it('the parameters of handlers stop the start when several have no decorator, or when one without a decorator cannot be the context', async () => {
    class Several {
      @Tool({ name: 'find', inputSchema: OrderId })
      find(@McpArgs('id') _id: string, _one: object, _other: object): void {}
    }
    class Typed {
      @Tool({ name: 'find', inputSchema: OrderId })
      find(_limit: number, @McpArgs('id') _id: string): void {}
    }
    class Second {
      @Tool({ name: 'find', inputSchema: OrderId })
      find(@McpCtx() _ctx: McpContext, _args: object): void {}
    }
    const index = { Several: 1, Typed: 0, Second: 1 };
    for (const provider of [Several, Typed, Second]) {
      const { message } = await failureOf(provider);
      expect(message).toContain(`${provider.name}.find (RootTestModule) cannot be served`);
      expect(message).toContain(`its parameter ${index[provider.name as keyof typeof index]} `);
    }
  });

  it('the class of a parameter is the schema of a tool that has none, and checked as one', async () => {
    const { tool, request } = await callOf(ByClass);
    const { tools } = (await request('tools/list', {})) as { tools: { name: string; inputSchema: object }[] };
    const schemas = Object.fromEntries(tools.map(({ name, inputSchema }) => [name, inputSchema]));
    const order = {
      type: 'object',
      properties: { item: { type: 'string' }, count: { type: 'integer', minimum: 1 } },
      required: ['item', 'count'],
    };
    for (const name of ['decorated', 'undecorated', 'as_body']) expect(schemas[name]).toEqual(order);
    expect(schemas['given']).toEqual(OrderId);
    expect(schemas['nothing']).toEqual({ type: 'object', properties: {} });
    const args = { item: 'lamp', count: 2 };
    expect(await tool('decorated', args)).toBe('true lamp 2');
    expect(await tool('undecorated', args)).toBe('true lamp context');
    expect(await tool('as_body', args)).toBe('true');
    for (const name of ['decorated', 'undecorated', 'as_body']) {
      expect(await tool(name, { item: 'lamp', count: 0 })).toContain('count must not be less than 1');
    }
    expect(await tool('given', { id: '7' })).toBe('false');
    expect(await tool('nothing', { any: 1 })).toBe('context');
  });

  it('the same for prompts, whose arguments may be a list instead', async () => {
    const { request } = await callOf(ByClass);
    const { prompts } = await request('prompts/list', {});
    expect(prompts).toMatchObject([
      {
        name: 'prompted',
        arguments: [
          { name: 'item', required: true },
          { name: 'count', required: true },
        ],
      },
      { name: 'listed', arguments: [{ name: 'item', required: true }] },
    ]);
  });

  it('an open object schema takes any arguments', async () => {
    const { tool } = await callOf(ByClass);
    expect(await tool('open', { any: [1], other: null })).toBe('{"any":[1],"other":null}');
  });

  it('arguments without a schema stop the start, with what to do', async () => {
    class Interface {
      @Tool({ name: 'find' })
      find(@McpArgs() _args: { id: string }): void {}
    }
    class Field {
      @Tool({ name: 'find' })
      find(@McpArgs('id', ParseIntPipe) _id: number): void {}
    }
    class Ruleless {
      @Tool({ name: 'find' })
      find(@McpArgs() _args: WithoutRules): void {}
    }
    class RulelessAndUndecorated {
      @Tool({ name: 'find' })
      find(_args: WithoutRules): void {}
    }
    class RulelessPrompt {
      @Prompt({ name: 'find' })
      find(@McpArgs() _args: WithoutRules): void {}
    }
    class WithoutMetadata {
      @Tool({ name: 'find' })
      find(@McpArgs() _args: OrderDto): void {}
    }
    Reflect.deleteMetadata('design:paramtypes', WithoutMetadata.prototype, 'find');
    for (const [provider, why] of [
      [Interface, 'its decorator metadata names no class'],
      [Field, 'its decorator metadata names no class'],
      [Ruleless, 'the class WithoutRules has no decorators of class-validator'],
      [RulelessAndUndecorated, 'the class WithoutRules has no decorators of class-validator'],
      [RulelessPrompt, 'the class WithoutRules has no decorators of class-validator'],
      [WithoutMetadata, 'the build (esbuild, tsx) emits no decorator metadata'],
    ] as const) {
      const { message } = await failureOf(provider);
      expect(message).toContain(`${provider.name}.find (RootTestModule) cannot be served: its parameter 0 `);
      expect(message).toContain(why);
      expect(message).toContain(`Give @${provider === RulelessPrompt ? 'Prompt' : 'Tool'}() an "inputSchema"`);
      expect(message).toContain(`inputSchema: { type: 'object' }`);
    }
  });
});
