import 'reflect-metadata';
import {
  Controller,
  Module,
  Post,
  Req,
  Res,
  SetMetadata,
  type CanActivate,
  type INestApplication,
  type ModuleMetadata,
  type Type,
} from '@nestjs/common';
import { DiscoveryModule, DiscoveryService } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { type McpCall, McpContext } from 'nestjs-mcp-streamable';
import type { McpClientPort } from '../../src/core/calls/mcp-context.js';
import { HandlerInvokers } from '../../src/core/handlers/invocation/handler-invokers.js';
import { RequestContexts } from '../../src/core/handlers/invocation/request-contexts.js';
import type { HandlerRunner } from '../../src/core/handlers/results/handler-outcome.js';
import type { Adapter } from './adapters.js';
import type { ProviderWrapper } from '../../src/core/handlers/invocation/enhancers.js';

export { ADAPTERS, ONE_ADAPTER, type Adapter } from './adapters.js';

/** What the decorators of handlers say to Nest, without being handlers. */
export const EntryProvider = (): ClassDecorator => SetMetadata('__entryProvider__', true);

/** One call of a test, from outside of HTTP. */
interface TestedCall {
  /** `Tools.find`. */
  handler: string;
  /** Where it is provided, if in several. */
  module?: string;
  args?: unknown;
  validate?: (raw: unknown) => unknown;
  listGuards?: Type<CanActivate>[];
}

/** What a handler's client is sent. */
export class TestedClient implements McpClientPort {
  readonly sent: unknown[] = [];
  readonly aborting = new AbortController();

  notify(notification: { method: string; params?: Record<string, unknown> }): Promise<void> {
    this.sent.push(notification.params);
    return Promise.resolve();
  }
  log(level: string, data: unknown): Promise<void> {
    this.sent.push({ level, data });
    return Promise.resolve();
  }
  readonly clientCapabilities = {};
  readonly inputResponses = undefined;
  readonly requestState = undefined;
  ask(): never {
    throw new Error('not asked here');
  }
  once(): never {
    throw new Error('not asked here');
  }
  readonly task = undefined;
  entering(): undefined {
    return undefined;
  }
  progress(report: object): Promise<void> {
    return this.notify({ method: 'notifications/progress', params: { progressToken: 'token', ...report } });
  }
  startTask(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
  state(): never {
    throw new Error('no state here');
  }
  principalState(): never {
    throw new Error('no state here');
  }

  context(request: unknown, principal = 'anna'): McpContext {
    const { signal } = this.aborting;
    const message = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { _meta: { progressToken: 'token' } },
    } as const;
    const call = {
      era: 'legacy',
      principal,
      request,
      session: undefined,
      method: 'tools/call',
      requestId: 1,
      signal,
      get aborted() {
        return signal.aborted;
      },
      message,
    };
    return new McpContext(call as Partial<McpCall> as McpCall, this);
  }
}

type Task = (request: unknown) => Promise<unknown>;

const tasks = new Map<string, Task>();

/** Stands where the endpoint does: takes an HTTP request through Nest's router, and runs what the test wants. */
@Controller('invoke')
class InvokingController {
  @Post()
  async invoke(@Req() request: { headers: Record<string, string> }, @Res() response: RawResponse): Promise<void> {
    await tasks.get(request.headers['x-task']!)!(request);
    const raw = response.raw ?? response;
    response.hijack?.();
    raw.end();
  }
}

interface RawResponse {
  raw?: RawResponse;
  hijack?(): void;
  end(): void;
}

interface InvokingAppOptions extends ModuleMetadata {
  adapter: Adapter;
  configure?: (app: INestApplication) => void;
}

/** An app whose providers' methods are run as handlers, each within an HTTP request of its own. */
export class InvokingApp {
  private constructor(
    readonly app: INestApplication,
    private readonly url: string,
  ) {}

  static async start({ adapter, configure, ...metadata }: InvokingAppOptions): Promise<InvokingApp> {
    @Module({
      ...metadata,
      imports: [DiscoveryModule, ...(metadata.imports ?? [])],
      controllers: [InvokingController, ...(metadata.controllers ?? [])],
      providers: [RequestContexts, HandlerInvokers, ...(metadata.providers ?? [])],
    })
    class TestedModule {}
    const testing = await Test.createTestingModule({ imports: [TestedModule] }).compile();
    testing.useLogger(false);
    const app = testing.createNestApplication(adapter === 'express' ? new ExpressAdapter() : new FastifyAdapter());
    configure?.(app);
    await app.listen(0, '127.0.0.1');
    return new InvokingApp(app, await app.getUrl());
  }

  invoker({ handler, module, validate, listGuards }: TestedCall): HandlerRunner {
    const [name, methodName = ''] = handler.split('.');
    const wrapper = this.wrapper(name!, module);
    const options = {
      kind: 'tool',
      name: methodName,
      ...(validate && { validate }),
      ...(listGuards && { listGuards }),
    };
    return this.app
      .get(HandlerInvokers, { strict: false })
      .create({ wrapper, methodName, origin: handler }, options as Parameters<HandlerInvokers['create']>[1]);
  }

  wrapper(name: string, module?: string): ProviderWrapper {
    const discovery = this.app.get(DiscoveryService, { strict: false });
    const all = [...discovery.getProviders(), ...discovery.getControllers()];
    const inModule = all.filter(({ host }) => module === undefined || host?.name === module);
    return inModule.find(({ name: each, token }) => each === name || token === name)!;
  }

  /** Runs a handler within one HTTP request. */
  run(call: TestedCall, headers: Record<string, string> = {}, client = new TestedClient()): Promise<unknown> {
    const invoker = this.invoker(call);
    return this.within((request) => invoker.run(call.args ?? {}, client.context(request)), headers);
  }

  /** Asks whether a list shows a handler, within one HTTP request. */
  visible(call: TestedCall, headers: Record<string, string> = {}): Promise<unknown> {
    const invoker = this.invoker(call);
    return this.within(async (request) => invoker.visible(new TestedClient().context(request)), headers);
  }

  /** @returns what the task returned, once the HTTP request is over @throws what it threw */
  async within(task: Task, headers: Record<string, string> = {}): Promise<unknown> {
    const id = String(++lastTask);
    let outcome: { value: unknown } | { error: unknown } | undefined;
    tasks.set(id, async (request) => {
      try {
        outcome = { value: await task(request) };
      } catch (error) {
        outcome = { error };
      }
    });
    const response = await fetch(`${this.url}/invoke`, { method: 'POST', headers: { ...headers, 'x-task': id } });
    const body = await response.text();
    tasks.delete(id);
    if (!outcome) throw new Error(`The route was not reached: ${response.status} ${body}`);
    if (body !== '') throw new Error(`The POST was answered by something else: ${body}`);
    if ('error' in outcome) throw outcome.error;
    return outcome.value;
  }

  async close(): Promise<void> {
    await this.app.close();
  }
}

let lastTask = 0;
