import { Injectable } from '@nestjs/common';
import { fromJsonSchema, inputRequired, type ServerContext } from '@modelcontextprotocol/server';
import { McpArgs, McpCtx, type McpContext, Resource, Tool } from 'nestjs-mcp-streamable';
import { LEGACY_REVISIONS, McpServer, type McpServerContext, MODERN_REVISIONS } from 'nestjs-mcp-streamable/server';
import type { TestAppOptions } from '../support/app.js';
import { gate } from '../support/app.js';
import { FORM, SAMPLE } from '../methods/callers.js';

/** What a test hears of handlers that wait, and how it lets them go on. */
export class Stage {
  readonly #entered = new Map<string, ReturnType<typeof gate<AbortSignal>>>();
  readonly #held = new Map<string, ReturnType<typeof gate<string>>>();
  /** Whose signals have aborted. */
  readonly left: string[] = [];

  /** A handler waits under this name. */
  entered(name: string): Promise<AbortSignal> {
    return this.#of(this.#entered, name).promise;
  }

  /** The handler of that name goes on with a text. */
  release(name: string, text: string): void {
    this.#of(this.#held, name).open(text);
  }

  /** What another test has heard and let go is forgotten. */
  reset(): void {
    this.#entered.clear();
    this.#held.clear();
    this.left.length = 0;
  }

  /** @internal for the handlers */
  async wait(name: string, signal: AbortSignal): Promise<string> {
    signal.addEventListener('abort', () => this.left.push(name));
    this.#of(this.#entered, name).open(signal);
    const aborted = new Promise<string>((resolve) => signal.addEventListener('abort', () => resolve('too late')));
    return Promise.race([this.#of(this.#held, name).promise, aborted]);
  }

  #of<T>(gates: Map<string, ReturnType<typeof gate<T>>>, name: string): ReturnType<typeof gate<T>> {
    let found = gates.get(name);
    if (!found) gates.set(name, (found = gate<T>()));
    return found;
  }
}

/** Tools, decorated and in a server of the app, that do the same. */
export interface Served {
  readonly stage: Stage;
  readonly options: Partial<TestAppOptions>;
}

const NAMED = { type: 'object', properties: { name: { type: 'string' } } } as const;
const LOG = { level: 'info', data: 'a log message' } as const;
const CHANGED = 'notifications/tools/list_changed';
const UPDATED = { uri: 'app://notes' };
const QUESTIONS = inputRequired({ inputRequests: { who: inputRequired.elicit(FORM) } });

/** The handlers of an app. */
export function decorated(): Served {
  const stage = new Stage();

  @Injectable()
  class Tools {
    @Tool({ name: 'echo', inputSchema: NAMED })
    echo(@McpArgs() { name }: { name?: string }): string {
      return String(name);
    }
    @Tool({ name: 'steps' })
    async steps(@McpCtx() ctx: McpContext): Promise<string> {
      await ctx.progress(1, 2);
      await ctx.progress(2, 2);
      return 'stepped';
    }
    @Tool({ name: 'waits', inputSchema: NAMED })
    async waits(@McpArgs() { name }: { name: string }, @McpCtx() ctx: McpContext): Promise<string> {
      await ctx.progress(1);
      return stage.wait(name, ctx.signal);
    }
    @Tool({ name: 'talks' })
    async talks(@McpCtx() ctx: McpContext): Promise<string> {
      await ctx.log(LOG.level, LOG.data);
      await ctx.notify('notifications/message', LOG);
      await ctx.notify(CHANGED);
      await ctx.notify('notifications/resources/updated', UPDATED);
      return 'talked';
    }
    @Tool({ name: 'elicits' })
    async elicits(@McpCtx() ctx: McpContext): Promise<string> {
      return JSON.stringify(await ctx.elicit('who', FORM));
    }
    @Tool({ name: 'samples' })
    async samples(@McpCtx() ctx: McpContext): Promise<string> {
      return JSON.stringify(await ctx.sample('model', SAMPLE));
    }
    @Tool({ name: 'roots' })
    async roots(@McpCtx() ctx: McpContext): Promise<string> {
      return JSON.stringify(await ctx.roots('roots'));
    }
    @Tool({ name: 'returns' })
    returns(): object {
      return QUESTIONS;
    }
    @Tool({ name: 'fails' })
    fails(): never {
      throw new Error('broken');
    }
    @Tool({ name: 'who' })
    who(@McpCtx() { session, principal }: McpContext): string {
      return JSON.stringify([session ?? null, principal]);
    }
    @Resource({ uri: UPDATED.uri, name: 'notes' })
    notes(): string {
      return 'the notes';
    }
  }
  return { stage, options: { server: undefined, module: { providers: [Tools] } } };
}

/** Who made a server, and what became of it. */
export interface MadeServer {
  readonly context: McpServerContext;
  closed: boolean;
}

/** The option `server`. */
export function ownServer(made: MadeServer[] = []): Served {
  const stage = new Stage();
  const text = (said: unknown) => ({ content: [{ type: 'text' as const, text: String(said) }] });
  const named = fromJsonSchema<{ name?: string }>(NAMED);

  const server = (context: McpServerContext): McpServer => {
    const supportedProtocolVersions = [...LEGACY_REVISIONS, ...MODERN_REVISIONS];
    const capabilities = {
      logging: {},
      resources: { subscribe: true },
      completions: {},
      experimental: { a: { b: 1 } },
    };
    const own = new McpServer({ name: 'own', version: '1.0.0' }, { capabilities, supportedProtocolVersions });
    const one: MadeServer = { context, closed: false };
    made.push(one);
    own.server.onclose = () => {
      one.closed = true;
    };
    const progress = async ({ mcpReq }: ServerContext, step: number): Promise<void> => {
      const progressToken = mcpReq._meta?.progressToken;
      if (progressToken === undefined) return;
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: step } });
    };
    own.registerTool('echo', { inputSchema: named }, ({ name }) => text(name));
    own.registerTool('steps', {}, async (ctx) => {
      await progress(ctx, 1);
      await progress(ctx, 2);
      return text('stepped');
    });
    own.registerTool('waits', { inputSchema: named }, async ({ name }, ctx) => {
      await progress(ctx, 1);
      return text(await stage.wait(name!, ctx.mcpReq.signal));
    });
    own.registerTool('talks', {}, async ({ mcpReq }) => {
      await mcpReq.log(LOG.level, LOG.data);
      await mcpReq.notify({ method: 'notifications/message', params: LOG });
      await own.sendLoggingMessage(LOG);
      own.sendToolListChanged();
      await own.server.sendResourceUpdated(UPDATED);
      return text('talked');
    });
    own.registerTool('elicits', {}, async ({ mcpReq }) => text(JSON.stringify(await mcpReq.elicitInput(FORM))));
    own.registerTool('samples', {}, async ({ mcpReq }) => text(JSON.stringify(await mcpReq.requestSampling(SAMPLE))));
    own.registerTool('roots', {}, async ({ mcpReq }) =>
      text(JSON.stringify(await mcpReq.send({ method: 'roots/list' }))),
    );
    own.registerTool('returns', {}, () => QUESTIONS);
    own.registerTool('fails', {}, () => {
      throw new Error('broken');
    });
    own.registerTool('who', {}, () => text(JSON.stringify([context.session ?? null, context.principal])));
    own.registerResource('notes', UPDATED.uri, {}, () => ({ contents: [{ ...UPDATED, text: 'the notes' }] }));
    return own;
  };
  return { stage, options: { server } };
}

export const SERVED: readonly (readonly [name: string, make: () => Served])[] = [
  ['decorated handlers', decorated],
  ['the option server', ownServer],
];
