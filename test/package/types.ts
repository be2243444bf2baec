/**
 * What the compiler infers, and what it refuses: compiled in the repository, and in the apps of `check:compat` with the oldest
 * TypeScript and the newest. Nothing here runs.
 */
import {
  applyDecorators,
  Body,
  Controller,
  createParamDecorator,
  Delete,
  Get,
  Injectable,
  Param,
  ParseIntPipe,
  Put,
  UseGuards,
} from '@nestjs/common';
import { expectTypeOf } from 'expect-type';
import type { Request } from 'express';
import type { FastifyRequest } from 'fastify';
import {
  type McpHandlerSchema,
  image,
  Confirm,
  McpArgs,
  type McpContent,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  type McpRegistry,
  McpStreamableModule,
  type McpStructured,
  type McpStreamableModuleAsyncOptions,
  type McpStreamableModuleOptions,
  Prompt,
  structured,
  text,
  Tool,
  toolResult,
  type ToolEvent,
  toolProgress,
  Tools,
} from 'nestjs-mcp-streamable';
import { of, type Observable } from 'rxjs';
import { z } from 'zod';

const Order = z.object({ id: z.string(), limit: z.coerce.number().default(10) });
const Total = z.object({ total: z.number() });
type OrderArgs = z.infer<typeof Order>;

class OrderDto {
  id!: string;
}

interface User {
  readonly id: string;
}
const CurrentUser = createParamDecorator((_data, context) => context.switchToHttp().getRequest<{ user: User }>().user);

const totalSchema = { type: 'object', properties: { total: { type: 'number' } } };
const SearchTool = () =>
  applyDecorators(Tool({ name: 'search', inputSchema: Order, outputSchema: Total }), UseGuards());

@Injectable()
export class Compiles {
  @Tool({ name: 'whole', inputSchema: Order, outputSchema: Total })
  whole(@McpArgs() { limit }: OrderArgs): z.infer<typeof Total> {
    return { total: limit };
  }
  @Tool({ name: 'part', inputSchema: Order, outputSchema: Total })
  async part(@McpArgs('id') id: string, @McpCtx() ctx: McpContext): Promise<{ total: number }> {
    return Promise.resolve({ total: Number(id) + ctx.method.length });
  }
  @Tool({ name: 'piped', inputSchema: Order })
  piped(@McpArgs('id', ParseIntPipe) id: number): number {
    return id;
  }
  /** Its type is that of `piped`, and no decorator of a method sees more: the start fails, `argument-types.spec.ts`. */
  @Tool({ name: 'unlike', inputSchema: Order })
  unlike(@McpArgs('id') id: number): number {
    return id;
  }
  @Tool({ name: 'beside', inputSchema: Order })
  beside(@McpArgs() { id }: Pick<OrderArgs, 'id'>, user: User): string {
    return `${id} ${user.id}`;
  }
  @Tool({ name: 'ignored', inputSchema: Order, outputSchema: Total })
  ignored(ctx: McpContext): { total: number } {
    return { total: ctx.method.length };
  }
  @Tool({ name: 'class', inputSchema: OrderDto, outputSchema: OrderDto })
  class(@McpArgs() { id }: OrderDto): OrderDto {
    return { id };
  }
  @Tool({ name: 'parts', outputSchema: Total })
  parts(): Observable<ToolEvent<{ total: number }>> {
    return of(toolProgress(1), { total: 1 });
  }
  @Tool({ name: 'generator', outputSchema: Total })
  async *generator(): AsyncGenerator<ToolEvent<{ total: number }>> {
    yield toolProgress(1);
    yield { total: 1 };
  }
  @Tool({ name: 'error', outputSchema: Total })
  error(): { content: { type: 'text'; text: string }[]; isError: true } {
    return { content: [{ type: 'text', text: 'No.' }], isError: true };
  }
  @Tool({ name: 'files', outputSchema: Total })
  files(): { content: McpContent[]; structuredContent: { total: number } } {
    return { content: [text('One:'), image(new Uint8Array())], structuredContent: { total: 1 } };
  }
  @Tool({ name: 'said', outputSchema: Total })
  said(): McpStructured<{ total: number }> {
    return structured({ total: 1 });
  }
  @Tool({ name: 'marked', outputSchema: Total })
  marked(): { content: McpContent[]; structuredContent: { total: number } } {
    return toolResult({ content: [image(new Uint8Array())], structuredContent: { total: 1 } });
  }
  @Tool({ name: 'json', inputSchema: totalSchema, outputSchema: totalSchema })
  json(@McpArgs() args: { total: number }): object {
    return args;
  }
  @Tool({ name: 'unchecked', inputSchema: Order as McpHandlerSchema, outputSchema: Total as McpHandlerSchema })
  unchecked(@McpArgs() args: { other: Date }): object {
    return args;
  }
  @Tool({ name: 'list', outputSchema: z.array(Total) })
  async list(): Promise<{ total: number }[]> {
    return Promise.resolve([{ total: 1 }]);
  }
  @Tool({ name: 'maybe', outputSchema: Total.nullable() })
  maybe(): { total: number } | null {
    return null;
  }
  @Tool({ name: 'text', outputSchema: z.string() })
  text(): Observable<string> {
    return of('text');
  }
  @Tool({ name: 'classes', outputSchema: [OrderDto] })
  classes(): OrderDto[] {
    return [{ id: '1' }];
  }
  @SearchTool()
  composed(@McpArgs() { id }: OrderArgs): { total: number } {
    return { total: id.length };
  }
  @Prompt({ name: 'review', inputSchema: Order })
  review(@McpArgs('id') id: string): string {
    return id;
  }
}

@Controller('orders')
export class Routes {
  @Get(':id')
  @Tool({ name: 'order', inputSchema: z.object({ id: z.number() }), outputSchema: Total })
  find(@Param('id', ParseIntPipe) id: number): { total: number } {
    return { total: id };
  }
}

/** A route says the rest. */
@Controller('whole')
@Tools({ except: ['none'] })
export class WholeController {
  @Get(':id')
  @Tool()
  find(@Param('id', ParseIntPipe) id: number): { id: number } {
    return { id };
  }
  @Get()
  @Tool({ outputSchema: 'route', rename: { 'query.text': 'query' } })
  list(): Promise<unknown[]> {
    return Promise.resolve([]);
  }
  @Get('none')
  @Tool(false)
  none(): void {}
}

export class Refused {
  // @ts-expect-error -- the result is a text
  @Tool({ name: 'result', outputSchema: Total })
  result(): { total: string } {
    return { total: '1' };
  }
  // @ts-expect-error -- so is that of the promise
  @Tool({ name: 'promise', outputSchema: Total })
  async promise(): Promise<{ total: string }> {
    return Promise.resolve({ total: '1' });
  }
  // @ts-expect-error -- and the last part
  @Tool({ name: 'parts', outputSchema: Total })
  parts(): Observable<ToolEvent<{ total: string }>> {
    return of({ total: '1' });
  }
  // @ts-expect-error -- of a class too
  @Tool({ name: 'class', outputSchema: OrderDto })
  class(): { id: number } {
    return { id: 1 };
  }
  // @ts-expect-error -- the data has another type
  @Tool({ name: 'said', outputSchema: Total })
  said(): McpStructured<{ total: string }> {
    return structured({ total: '1' });
  }
  // @ts-expect-error -- the items are objects
  @Tool({ name: 'list', outputSchema: z.array(Total) })
  list(): number[] {
    return [1];
  }
  // @ts-expect-error -- one object is no list
  @Tool({ name: 'classes', outputSchema: [OrderDto] })
  classes(): OrderDto {
    return { id: '1' };
  }
  // @ts-expect-error -- the id is a text
  @Tool({ name: 'args', inputSchema: Order })
  args(@McpArgs() { id }: { id: number }): number {
    return id;
  }
  // @ts-expect-error -- there is no such argument
  @Tool({ name: 'name', inputSchema: Order })
  name(@McpArgs() { orderId }: { orderId: string }, @McpCtx() ctx: McpContext): string {
    return orderId + ctx.method;
  }
  // @ts-expect-error -- as in prompts
  @Prompt({ name: 'prompt', inputSchema: Order })
  prompt(@McpArgs() { orderId }: { orderId: string }): string {
    return orderId;
  }
}

/** What a question is made of, and keys. */
export class Effects {
  @Tool({
    name: 'inferred',
    inputSchema: Order,
    confirm: ({ id }, ctx) => `${id.toUpperCase()} of ${ctx.principal}?`,
    idempotency: { key: ({ id }) => id.trim() },
  })
  inferred(): void {}

  @Tool({ name: 'asks', inputSchema: Order, confirm: { message: async ({ id }) => id.trim(), ttlMs: 5_000 } })
  asks(): void {}

  @Tool({ name: 'annotated', inputSchema: Order, idempotency: { argument: 'id' } })
  @Confirm(({ id }: { id: string }) => `${id}?`)
  annotated(@McpArgs() order: z.infer<typeof Order>): string {
    return order.id;
  }

  @Tool({ name: 'byName', inputSchema: Order })
  @Confirm(({ id }: z.infer<typeof Order>) => `${id}?`)
  byName(@McpArgs('id') id: string, @McpCtx() ctx: McpContext): string {
    return id + ctx.method;
  }

  @Tool({ name: 'forUser', inputSchema: Order })
  @Confirm(({ id }: { id: string }) => `${id}?`)
  forUser(@McpArgs() { id }: OrderArgs, @CurrentUser() user: User): string {
    return id + user.id;
  }

  @Tool({ name: 'byNameForUser', inputSchema: z.object({ id: z.number() }) })
  @Confirm(({ id }: { id: number }, ctx) => `${id} of ${ctx.principal}?`)
  byNameForUser(@CurrentUser() user: User, @McpArgs('id') id: number, ctx: McpContext): string {
    return id + user.id + ctx.method;
  }

  @Tool({ name: 'lines', inputSchema: z.object({ id: z.string(), lines: z.array(z.string()) }) })
  @Confirm(({ id }: { id: string }) => `${id}?`)
  lines(@McpArgs('lines') lines: string[], @CurrentUser() user: User): string {
    return lines.join() + user.id;
  }

  @Tool({ name: 'context', inputSchema: Order })
  @Confirm(({ id }: { id: string }) => `${id}?`)
  context(@McpCtx() ctx: McpContext<User>): string {
    return ctx.request.id;
  }

  @Tool({ name: 'untyped' })
  @Confirm(({ id }) => `${id}?`)
  untyped(): void {}

  @Tool({
    name: 'wrong',
    inputSchema: Order,
    // @ts-expect-error -- there is no such argument
    confirm: ({ number }) => `${number}?`,
  })
  wrong(): void {}

  // @ts-expect-error -- the method has no such argument
  @Confirm(({ number }: { number: string }) => `${number}?`)
  @Tool({ name: 'misfit', inputSchema: Order })
  misfit(@McpArgs() order: z.infer<typeof Order>): string {
    return order.id;
  }

  // @ts-expect-error -- nor one of its parameters
  @Confirm(({ number }: { number: string }) => `${number}?`)
  @Tool({ name: 'misfits', inputSchema: Order })
  misfits(@McpArgs() order: OrderArgs, @CurrentUser() user: User, @McpCtx() ctx: McpContext): string {
    return order.id + user.id + ctx.method;
  }

  // @ts-expect-error -- nor has the schema
  @Tool({ name: 'argument', inputSchema: Order, idempotency: { argument: 'number' } })
  argument(): void {}
}

/** A route takes what it is asked about from several places. */
@Controller('notes')
export class ConfirmedRoutes {
  @Delete(':id')
  @Tool()
  @Confirm(({ id }: { id: number }) => `${id}?`)
  remove(@Param('id', ParseIntPipe) id: number, @CurrentUser() user: User): string {
    return id + user.id;
  }
  @Put(':id')
  @Tool()
  @Confirm(({ id, text }: { id: string; text: string }) => `${id}: ${text}?`)
  change(@Param() { id }: OrderDto, @Body() note: { text: string; tags: string[] }, @CurrentUser() user: User): string {
    return id + note.text + user.id;
  }
}

interface UserRequest extends Request {
  readonly user: User;
}

/** The request of the adapter, with what guards put on it. */
export class Requests {
  @Tool({ name: 'whole', inputSchema: Order, outputSchema: Total })
  whole(@McpArgs() { limit }: OrderArgs, @McpCtx() ctx: McpContext<UserRequest>): { total: number } {
    expectTypeOf(ctx.request).toEqualTypeOf<UserRequest>();
    return { total: limit + ctx.request.user.id.length };
  }
  @Tool({ name: 'beside', inputSchema: Order })
  @Confirm(({ id }: { id: string }) => `${id}?`)
  beside(@McpArgs('id') id: string, { request }: McpContext<FastifyRequest>): string {
    return id + request.hostname;
  }
  @Tool({ name: 'unknown' })
  unknown(@McpCtx() ctx: McpContext): void {
    expectTypeOf(ctx.request).toEqualTypeOf<unknown>();
    expectTypeOf<McpContext<UserRequest>>().toExtend<McpContext>();
  }
}
export const guarded = createParamDecorator((_data, context) => {
  const { request } = McpExecutionContext.create(context).getContext<UserRequest>();
  return request.user;
});

export async function asks(ctx: McpContext): Promise<void> {
  const answer = await ctx.elicit('size', { message: 'Which?', requestedSchema: z.object({ size: z.number() }) });
  if (answer.action === 'accept') expectTypeOf(answer.content).toEqualTypeOf<{ size: number }>();
  else expectTypeOf(answer.content).toEqualTypeOf<undefined>();
  const json = await ctx.elicit('more', {
    message: 'More?',
    requestedSchema: {
      type: 'object',
      properties: {
        count: { type: 'integer' },
        color: { type: 'string', enum: ['red', 'blue'] },
        yes: { type: 'boolean' },
      },
      required: ['count', 'color'],
    },
  });
  if (json.action === 'accept')
    expectTypeOf(json.content).toEqualTypeOf<{ count: number; color: 'red' | 'blue'; yes?: boolean }>();
  const { color, roots } = await ctx.ask({
    color: {
      method: 'elicitation/create',
      params: { message: 'Color?', requestedSchema: z.object({ color: z.string() }) },
    },
    roots: { method: 'roots/list' },
  });
  if (color.action === 'accept') expectTypeOf(color.content.color).toEqualTypeOf<string>();
  expectTypeOf(roots.roots[0]!.uri).toEqualTypeOf<string>();
  const url = await ctx.elicit('login', { mode: 'url', message: 'Log in', url: 'https://example.com' });
  expectTypeOf(url.action).toEqualTypeOf<'accept' | 'decline' | 'cancel'>();
}

export function registers(registry: McpRegistry): void {
  registry.registerTool({
    name: 'order',
    inputSchema: Order,
    handler: (args, ctx) => {
      expectTypeOf(args).toEqualTypeOf<OrderArgs>();
      expectTypeOf(ctx).toEqualTypeOf<McpContext>();
    },
  });
  registry.registerTool({
    name: 'class',
    inputSchema: OrderDto,
    handler: (args) => expectTypeOf(args).toEqualTypeOf<OrderDto>(),
  });
  registry.registerTool<{ id: number }>({ name: 'json', inputSchema: totalSchema, handler: ({ id }) => id });
  registry.registerTool({
    name: 'none',
    handler: (args) => expectTypeOf(args).toEqualTypeOf<Record<string, unknown>>(),
  });
  registry.registerPrompt({
    name: 'review',
    inputSchema: Order,
    handler: (args) => expectTypeOf(args).toEqualTypeOf<OrderArgs>(),
  });
}

const serverInfo = { name: 'types', version: '1.0.0' };
export const modules = [
  McpStreamableModule.forRoot({
    serverInfo,
    principal: (request) => String(request.headers['x-user'] ?? request.user.id),
  }),
  McpStreamableModule.forRoot({ serverInfo, principal: (request) => request.auth?.clientId ?? request.ip }),
  McpStreamableModule.forRoot({ serverInfo, principal: (request: Request) => request.get('x-user') }),
  McpStreamableModule.forRoot({ serverInfo, principal: (request: FastifyRequest) => request.hostname }),
  McpStreamableModule.forRoot({ serverInfo, principal: ({ user }: { user: User }) => user.id }),
  // @ts-expect-error -- an id is no object
  McpStreamableModule.forRoot({ serverInfo, principal: ({ user }: { user: User }) => user }),
];
expectTypeOf(McpStreamableModule.forRoot).parameter(0).toEqualTypeOf<McpStreamableModuleOptions>();
expectTypeOf(McpStreamableModule.forRootAsync).parameter(0).toEqualTypeOf<McpStreamableModuleAsyncOptions>();
