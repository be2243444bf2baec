import {
  ConflictException,
  Injectable,
  UnauthorizedException,
  type CanActivate,
  type ExecutionContext,
  UseGuards,
} from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Prompt, Resource, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { gate } from '../support/app.js';

/** Lets everybody in but those whom the tests replace it for. */
@Injectable()
export class StaffGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers } = context.switchToHttp().getRequest();
    if (headers['x-staff'] !== undefined) return true;
    throw new UnauthorizedException('Only staff may do that.');
  }
}

/** What a tool waits for. */
@Injectable()
export class Doors {
  readonly reached = gate();
  readonly opened = gate();
  cancelled = false;
}

const Sum = z.object({ sum: z.number() });

@Injectable()
export class KitTools {
  constructor(private readonly doors: Doors) {}

  @Tool({ name: 'add', inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: Sum })
  add(@McpArgs() { a, b }: { a: number; b: number }): z.infer<typeof Sum> {
    return { sum: a + b };
  }

  @Tool({ name: 'fail' })
  fail(): never {
    throw new ConflictException('No more room.');
  }

  @Tool({ name: 'close_shop' })
  @UseGuards(StaffGuard)
  closeShop(): string {
    return 'closed';
  }

  @Tool({ name: 'count' })
  async count(@McpCtx() ctx: McpContext): Promise<string> {
    await ctx.log('info', 'counting');
    for (let at = 1; at <= 3; at++) await ctx.progress(at, 3);
    return 'counted';
  }

  @Tool({ name: 'wait' })
  async wait(@McpCtx() ctx: McpContext): Promise<string> {
    ctx.signal.addEventListener('abort', () => (this.doors.cancelled = true));
    await ctx.progress(1, 2);
    this.doors.reached.open();
    await this.doors.opened.promise;
    await ctx.progress(2, 2);
    return 'through';
  }

  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = z.object({ name: z.string() });
    const { action, content } = await ctx.elicit('name', { message: 'Your name?', requestedSchema });
    return action === 'accept' ? `Hello, ${content?.name}` : action;
  }

  @Tool({ name: 'think' })
  async think(@McpCtx() ctx: McpContext): Promise<string> {
    const text = { type: 'text', text: 'Think!' } as const;
    const answer = await ctx.sample('thought', { messages: [{ role: 'user', content: text }], maxTokens: 10 });
    return JSON.stringify(answer.content);
  }

  @Resource({ uri: 'shop://terms', name: 'terms' })
  terms(): string {
    return 'Pay soon.';
  }

  @Prompt({ name: 'complain' })
  complain(): string {
    return 'Complain!';
  }
}
