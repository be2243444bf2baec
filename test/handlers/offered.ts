import { Controller, Get, Injectable } from '@nestjs/common';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import { Type } from 'class-transformer';
import { IsInt, IsOptional, IsString, Min, ValidateNested } from 'class-validator';
import {
  Complete,
  McpArgs,
  McpCtx,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  type McpContext,
} from 'nestjs-mcp-streamable';
import * as v from 'valibot';
import { z } from 'zod';
import { JSON_SCHEMA_2020_12 } from '../conformance/everything.data.js';

const order = z.object({ id: z.string().describe('The number on the invoice'), lines: z.coerce.number().default(1) });
const arkOrder = type({ id: 'string', 'lines?': 'number' });
const valibotOrder = toStandardJsonSchema(v.object({ id: v.string(), lines: v.optional(v.number(), 1) }));

class Address {
  @IsString()
  street!: string;
}

export class OrderDto {
  @IsString()
  id!: string;

  @IsOptional()
  @IsInt()
  @Min(1)
  lines?: number;

  @IsOptional()
  @ValidateNested()
  @Type(() => Address)
  address?: Address;
}

/** A tool for each kind of schema. */
@Injectable()
export class OrderTools {
  @Tool({ name: 'zod', title: 'Find', description: 'Finds an order', inputSchema: order })
  zod(@McpArgs() args: z.infer<typeof order>): string {
    return JSON.stringify(args);
  }

  @Tool({ name: 'arktype', inputSchema: arkOrder })
  arktype(args: typeof arkOrder.infer): string {
    return JSON.stringify(args);
  }

  @Tool({ name: 'valibot', inputSchema: valibotOrder })
  valibot(args: { id: string; lines: number }): string {
    return JSON.stringify(args);
  }

  @Tool({ name: 'dto', inputSchema: OrderDto })
  dto(@McpArgs() args: OrderDto): string {
    return `${args.constructor.name} ${JSON.stringify(args)}`;
  }

  @Tool({ name: 'json_schema_2020_12_tool', inputSchema: JSON_SCHEMA_2020_12 })
  json(@McpArgs('name') name: string | undefined, @McpCtx() ctx: McpContext): string {
    return `${name} ${ctx.method}`;
  }

  @Tool({ name: 'structured', outputSchema: z.object({ total: z.number() }) })
  structured(): { total: number } {
    return Object.assign({ total: 3 }, { secret: 'x' });
  }
}

abstract class Pinged {
  @Tool({ name: 'ping-me' })
  ping(): string {
    return `pong from ${this.constructor.name}`;
  }
}

@Controller('orders')
export class OrdersController extends Pinged {
  @Get()
  @Resource({ uri: 'orders://all', name: 'all', mimeType: 'application/json', size: 2 })
  all(): string {
    return '[]';
  }

  @ResourceTemplate({ uriTemplate: 'orders://{id}/lines{?page}', name: 'lines' })
  lines(@McpArgs('id') id: string, @McpArgs('page') page: string): object {
    return { id, page };
  }

  @Complete({ template: 'orders://{id}/lines{?page}', argument: 'id' })
  async ids(value: string): Promise<{ values: string[]; total: number }> {
    return { values: [`${value}1`, `${value}2`], total: 7 };
  }
}

@Injectable()
export class Prompts {
  @Prompt({
    name: 'review',
    inputSchema: z.object({ code: z.string().describe('What'), depth: z.string().optional() }),
  })
  review(@McpArgs() { code }: { code: string }): string {
    return `Review ${code}`;
  }

  @Prompt({ name: 'plain', arguments: [{ name: 'code', description: 'What', required: true }] })
  plain({ code }: { code: string }, ctx: McpContext): string {
    return `${ctx.method} ${code}`;
  }

  @Complete({ prompt: 'review', argument: 'depth' })
  depths(value: string, others: Record<string, string>, ctx: McpContext): string[] {
    return Array.from({ length: 150 }, (_, index) => `${value}-${others.code}-${ctx.method}-${index}`);
  }
}
