import { Injectable, UnauthorizedException, type CanActivate, UseGuards } from '@nestjs/common';
import { ProtocolError } from '@modelcontextprotocol/server';
import { McpArgs, type McpContext, McpCtx, Tool, toolProgress, type ToolEvent } from 'nestjs-mcp-streamable';
import { Subject, type Observable } from 'rxjs';
import { z } from 'zod';
import { gate } from '../support/app.js';

const YES = { type: 'object' as const, properties: { yes: { type: 'boolean' as const } }, required: ['yes'] };
export const question = (message: string) => ({ message, requestedSchema: YES });
const Label = z.object({ label: z.string() });

@Injectable()
class Never implements CanActivate {
  canActivate(): never {
    throw new UnauthorizedException('Not you.');
  }
}

/** Tools with tasks; what they wait for is opened by the test. */
@Injectable()
export class TaskTools {
  readonly door = gate();
  readonly reports$ = new Subject<ToolEvent<string>>();
  /** What happened, in order. */
  readonly seen: string[] = [];
  ctx: McpContext | undefined;

  @Tool({ name: 'slow', task: 'optional', inputSchema: Label })
  async slow(@McpArgs() { label }: z.infer<typeof Label>, @McpCtx() ctx: McpContext): Promise<string> {
    this.ctx = ctx;
    this.seen.push(`begun ${ctx.task ? 'as a task' : 'as a call'}`);
    ctx.signal.addEventListener('abort', () => this.seen.push(`aborted: ${(ctx.signal.reason as Error).message}`));
    await Promise.race([this.door.promise, aborted(ctx)]);
    return `done ${label}`;
  }

  @Tool({ name: 'must', task: 'required', inputSchema: Label })
  must(@McpArgs() { label }: z.infer<typeof Label>): object {
    this.seen.push('must');
    return { content: [{ type: 'text', text: label }], isError: true };
  }

  @Tool({ name: 'denied', task: 'required' })
  @UseGuards(Never)
  denied(): string {
    this.seen.push('denied');
    return 'in';
  }

  @Tool({ name: 'breaks', task: 'optional' })
  async breaks(): Promise<never> {
    await this.door.promise;
    throw new ProtocolError(-32050, 'Broken.', { part: 7 });
  }

  @Tool({ name: 'secretly_breaks', task: 'optional' })
  async secretlyBreaks(): Promise<object> {
    await this.door.promise;
    const circle: Record<string, unknown> = {};
    circle['circle'] = circle;
    // oxlint-disable-next-line typescript/only-throw-error -- handlers throw whatever they like
    throw circle;
  }

  @Tool({ name: 'late', task: { afterMs: 500, ttlMs: 5_000, pollIntervalMs: 70 } })
  async late(): Promise<string> {
    await this.door.promise;
    return 'late';
  }

  @Tool({ name: 'asks', task: 'optional' })
  async asks(@McpCtx() ctx: McpContext): Promise<string> {
    const { a, b } = await ctx.ask({
      a: { method: 'elicitation/create', params: question('A?') },
      b: { method: 'elicitation/create', params: question('B?') },
    });
    const c = await ctx.elicit('c', question('C?'));
    return JSON.stringify([a.content, b.content, c.content]);
  }

  @Tool({ name: 'asks_first', task: 'manual' })
  async asksFirst(@McpCtx() ctx: McpContext): Promise<string> {
    const first = await ctx.elicit('first', question('First?'));
    const task = await ctx.startTask();
    const second = await ctx.elicit('second', question('Second?'));
    return `${task ? 'task' : 'call'} ${JSON.stringify([first.content, second.content])}`;
  }

  @Tool({ name: 'reports', task: 'optional' })
  reports(): Observable<ToolEvent<string>> {
    return this.reports$;
  }

  report(progress: number, message?: string): void {
    this.reports$.next(toolProgress(progress, 10, message));
  }

  @Tool({ name: 'large', task: 'optional', inputSchema: z.object({ bytes: z.number() }) })
  large(@McpArgs() { bytes }: { bytes: number }): string {
    return 'x'.repeat(bytes);
  }

  @Tool({ name: 'plain' })
  plain(): string {
    return 'plain';
  }
}

function aborted({ signal }: McpContext): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error));
  });
}
