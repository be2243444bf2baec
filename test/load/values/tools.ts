import { Body, Controller, Injectable, Post } from '@nestjs/common';
import { McpServer, ResourceTemplate as SdkTemplate } from '@modelcontextprotocol/server';
import { toStandardJsonSchema } from '@valibot/to-json-schema';
import { type } from 'arktype';
import { Type } from 'class-transformer';
import { IsArray, IsEmail, IsInt, IsString, MinLength, ValidateNested } from 'class-validator';
import {
  Complete,
  McpArgs,
  type McpContext,
  McpCtx,
  McpMethod,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import * as v from 'valibot';
import { z } from 'zod';

const FIELDS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i', 'j'];

/** An object of ten texts, as each library writes it. */
const ofFields = <T>(part: T): Record<string, T> => Object.fromEntries(FIELDS.map((field) => [field, part]));
const wideJson = { type: 'object', properties: ofFields({ type: 'string' }), required: FIELDS };

/** A tree of conditions whose alternatives are known by what comes last. */
const treeJson = {
  anyOf: ['and', 'or', 'nor'].map((op) => ({
    type: 'object',
    properties: {
      items: { type: 'array', items: { $ref: '#/$defs/node' } },
      numbers: { type: 'array', items: { type: 'number' } },
      text: { type: 'string', pattern: '^[a-z]*$' },
      op: { const: op },
    },
    required: ['op'],
  })),
};
type Tree = { items?: Tree[] | undefined; numbers?: number[] | undefined; text?: string | undefined; op: string };
const zodTree = (): z.ZodType<Tree> => zodNode;
const zodNode: z.ZodType<Tree> = z.union(
  ['and', 'or', 'nor'].map((op) =>
    z.object({
      items: z.array(z.lazy(zodTree)).optional(),
      numbers: z.array(z.number()).optional(),
      text: z.string().optional(),
      op: z.literal(op),
    }),
  ),
);
const valibotNode: v.GenericSchema<Tree> = v.union(
  ['and', 'or', 'nor'].map((op) =>
    v.object({
      items: v.optional(v.array(v.lazy(() => valibotNode))),
      numbers: v.optional(v.array(v.number())),
      text: v.optional(v.string()),
      op: v.literal(op),
    }),
  ),
);

class Wide {
  @IsString() a!: string;
  @IsString() b!: string;
  @IsString() c!: string;
  @IsEmail() d!: string;
  @IsInt() e!: number;
  @MinLength(3) f!: string;
  @IsString() g!: string;
  @IsString() h!: string;
  @IsString() i!: string;
  @IsString() j!: string;
}

export class WideList {
  @IsArray() @ValidateNested({ each: true }) @Type(() => Wide) items!: Wide[];
}

const STRING_FORMATS = ['date-time', 'date', 'time', 'email', 'hostname', 'ipv4', 'ipv6', 'uri', 'uuid', 'regex'];

/** Tools by name; each takes `items`, or what its name says. */
const SCHEMAS = {
  zod_texts: z.object({ items: z.array(z.string()) }),
  zod_wide: z.object({ items: z.array(z.object(ofFields(z.string()))) }),
  zod_union: z.object({ items: z.array(z.union([z.string(), z.boolean(), z.object({ a: z.string() }), z.null()])) }),
  zod_checked: z.object({
    items: z.array(
      z
        .string()
        .min(3)
        .max(9)
        .regex(/^[a-z]+$/),
    ),
  }),
  zod_strict: z.object({ items: z.array(z.strictObject({ a: z.string() })) }),
  zod_record: z.object({ items: z.record(z.string(), z.object(ofFields(z.string()))) }),
  zod_refined: z.object({ items: z.array(z.looseObject({}).refine(async () => Promise.resolve(false))) }),
  zod_formats: z.object({ items: z.union([z.email(), z.url(), z.uuid(), z.iso.datetime(), z.ipv4(), z.base64()]) }),
  zod_tree: z.object({ items: zodNode }),
  valibot_texts: toStandardJsonSchema(v.object({ items: v.array(v.string()) })),
  valibot_wide: toStandardJsonSchema(v.object({ items: v.array(v.object(ofFields(v.string()))) })),
  valibot_tree: toStandardJsonSchema(v.object({ items: valibotNode })),
  arktype_texts: type({ items: 'string[]' }),
  arktype_wide: type({ items: type(ofFields('string')).array() }),
  json_texts: { type: 'object', properties: { items: { type: 'array', items: { type: 'string' } } } },
  json_wide: { type: 'object', properties: { items: { type: 'array', items: wideJson } } },
  json_unique: { type: 'object', properties: { items: { type: 'array', uniqueItems: true } } },
  json_closed: { type: 'object', properties: { items: { type: 'object', additionalProperties: false } } },
  json_formats: {
    type: 'object',
    properties: { items: { anyOf: STRING_FORMATS.map((format) => ({ type: 'string', format })) } },
  },
  json_tree: { type: 'object', properties: { items: { $ref: '#/$defs/node' } }, $defs: { node: treeJson } },
} as const;

export const TOOL_NAMES: readonly string[] = [...Object.keys(SCHEMAS), 'class_wide', 'wide_create'];

/** Has a tool for each schema. */
@Injectable()
export class SchemaTools {}
for (const [name, inputSchema] of Object.entries(SCHEMAS)) {
  Object.defineProperty(SchemaTools.prototype, name, { value: () => 'served', configurable: true });
  const descriptor = Object.getOwnPropertyDescriptor(SchemaTools.prototype, name)!;
  Tool({ name, inputSchema: inputSchema as never })(SchemaTools.prototype, name, descriptor);
}

@Injectable()
export class OtherHandlers {
  @Tool({ name: 'class_wide' })
  classWide(@McpArgs() _: WideList): string {
    return 'served';
  }

  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const { action } = await ctx.elicit('which', {
      message: 'Which?',
      requestedSchema: z.object({ name: z.string(), many: z.array(z.enum(['a', 'b'])).optional() }),
    });
    return action;
  }

  @Tool({ name: 'any' })
  any(): string {
    return 'served';
  }

  @Prompt({ name: 'write', inputSchema: z.object({ about: z.string().optional() }) })
  write(): string {
    return 'Write.';
  }

  @Complete({ prompt: 'write', argument: 'about' })
  about(): string[] {
    return ['weather'];
  }

  @Resource({ uri: 'test://fixed', name: 'fixed' })
  fixed(): string {
    return 'text';
  }

  @ResourceTemplate({ uriTemplate: 'test://{id}/{part}', name: 'template' })
  template(): string {
    return 'text';
  }

  @McpMethod('com.example/search', z.object({ items: z.array(z.string()).optional() }))
  search(): object {
    return {};
  }
}

@Controller('wide')
export class WideController {
  @Post()
  @Tool()
  create(@Body() _: WideList): string {
    return 'served';
  }
}

/** Tools of a server of the SDK, which checks their arguments itself. A schema that refers to itself is not bounded there. */
const OF_SDK = ['zod_texts', 'zod_wide', 'zod_union', 'zod_formats', 'valibot_wide', 'arktype_wide'] as const;

export function serverOfSdk(): McpServer {
  const server = new McpServer({ name: 'sdk', version: '1.0.0' });
  const served = () => ({ content: [{ type: 'text' as const, text: 'served' }] });
  for (const name of OF_SDK) server.registerTool(name, { inputSchema: SCHEMAS[name] }, served);
  server.registerTool('any', { inputSchema: z.looseObject({}) }, served);
  server.registerPrompt('write', { argsSchema: z.object({ about: z.string().optional() }) }, () => ({
    messages: [{ role: 'user', content: { type: 'text', text: 'Write.' } }],
  }));
  server.registerResource('fixed', 'test://fixed', {}, ({ href }) => ({ contents: [{ uri: href, text: 'text' }] }));
  const template = new SdkTemplate('test://{id}/{part}', { list: undefined });
  server.registerResource('template', template, {}, ({ href }) => ({ contents: [{ uri: href, text: 'text' }] }));
  return server;
}
