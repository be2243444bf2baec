import {
  type ArgumentsHost,
  type CallHandler,
  Catch,
  type ExceptionFilter,
  type ExecutionContext,
  Injectable,
  type NestInterceptor,
  UseFilters,
  UseInterceptors,
} from '@nestjs/common';
import { inputRequired } from '@modelcontextprotocol/server';
import {
  Complete,
  McpArgs,
  type McpContext,
  McpCtx,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  toolProgress,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { catchError, concat, defer, from, type Observable, of, retry, switchMap } from 'rxjs';
import { z } from 'zod';

const Name = z.object({ name: z.string().min(1) });
const form = (message: string) => ({ message, requestedSchema: Name });
const nameOf = ({ action, content }: { action: string; content?: Record<string, unknown> | undefined }) =>
  action === 'accept' ? String(content!['name']) : action;
const SAMPLE = { messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hi' } }], maxTokens: 5 };

/** Makes a result of every error. */
@Catch()
class SwallowingFilter implements ExceptionFilter {
  catch(_: unknown, __: ArgumentsHost): string {
    return 'swallowed by a filter';
  }
}

@Injectable()
class SwallowingInterceptor implements NestInterceptor {
  intercept(_: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      retry(2),
      catchError(() => of('swallowed by an interceptor')),
    );
  }
}

/** What asks, in every way there is: the same for both eras. */
@Injectable()
export class AskingHandlers {
  /** How often handlers ran, and what they did. */
  readonly runs: string[] = [];

  @Tool({ name: 'greet' })
  async greet(@McpCtx() ctx: McpContext): Promise<string> {
    this.runs.push('greet');
    return `Hello ${nameOf(await ctx.elicit('name', form('Who are you?')))}`;
  }

  @Tool({ name: 'order', inputSchema: z.object({ item: z.string() }) })
  async order(@McpArgs('item') item: string, @McpCtx() ctx: McpContext): Promise<string> {
    const number = await ctx.once('number', () => {
      this.runs.push('number');
      return { next: 7 };
    });
    const who = nameOf(await ctx.elicit('who', form('For whom?')));
    const where = nameOf(await ctx.elicit('where', form('Where to?')));
    return `${number.next}: ${item} for ${who} in ${where}`;
  }

  @Tool({ name: 'all' })
  async all(@McpCtx() ctx: McpContext): Promise<string> {
    const { who, text, roots } = await ctx.ask({
      who: { method: 'elicitation/create', params: form('Who?') },
      text: { method: 'sampling/createMessage', params: SAMPLE },
      roots: { method: 'roots/list' },
    });
    return [nameOf(who), text.model, roots.roots.map(({ uri }) => uri)].join(' ');
  }

  @Tool({ name: 'caught' })
  async caught(@McpCtx() ctx: McpContext): Promise<string> {
    try {
      return `Hello ${nameOf(await ctx.elicit('name', form('Who are you?')))}`;
    } catch {
      return 'caught';
    }
  }

  @Tool({ name: 'filtered' })
  @UseFilters(SwallowingFilter)
  filtered(@McpCtx() ctx: McpContext): Promise<string> {
    return this.greet(ctx);
  }

  @Tool({ name: 'intercepted' })
  @UseInterceptors(SwallowingInterceptor)
  intercepted(@McpCtx() ctx: McpContext): Promise<string> {
    return this.greet(ctx);
  }

  @Tool({ name: 'streamed' })
  streamed(@McpCtx() ctx: McpContext): Observable<ToolEvent<string>> {
    const asked = defer(() => from(this.greet(ctx)));
    return concat(of(toolProgress(1, 2)), asked.pipe(switchMap((text) => of(toolProgress(2, 2), text))));
  }

  @Tool({ name: 'generated' })
  async *generated(@McpCtx() ctx: McpContext): AsyncGenerator<ToolEvent<string>> {
    yield toolProgress(1, 2);
    yield await this.greet(ctx);
  }

  @Tool({ name: 'sampled' })
  async sampled(@McpCtx() ctx: McpContext): Promise<string> {
    return (await ctx.sample('text', SAMPLE)).model;
  }

  @Tool({ name: 'sampled late' })
  async sampledLate(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.progress(1);
    return this.sampled(ctx).catch(() => 'caught');
  }

  @Tool({ name: 'by hand' })
  byHand(@McpCtx() ctx: McpContext) {
    const { name } = ctx.inputResponses ?? {};
    if (name) return `${ctx.requestState}: ${nameOf(name as never)}`;
    return inputRequired({ inputRequests: { name: inputRequired.elicit(form('Who?')) }, requestState: 'step 1' });
  }

  @Tool({ name: 'forgetful' })
  async forgetful(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.once('much', () => 's3cret'.repeat(20_000));
    return this.greet(ctx);
  }

  @Tool({ name: 'dropped' })
  dropped(@McpCtx() ctx: McpContext): string {
    void ctx.elicit('name', form('Who?'));
    return 'done';
  }

  @Prompt({ name: 'letter' })
  letter(@McpCtx() ctx: McpContext): Promise<string> {
    return this.greet(ctx);
  }

  @Resource({ uri: 'app://greeting', name: 'greeting' })
  greeting(_: object, ctx: McpContext): Promise<string> {
    return this.greet(ctx);
  }

  @ResourceTemplate({ uriTemplate: 'app://greeting/{word}', name: 'greetings' })
  greetings(_: object, ctx: McpContext): Promise<string> {
    return this.greet(ctx);
  }

  @Complete({ template: 'app://greeting/{word}', argument: 'word' })
  async words(_: string, __: object, ctx: McpContext): Promise<string[]> {
    return [nameOf(await ctx.elicit('word', form('Which word?')))];
  }
}
