import type {
  CallToolResult,
  ElicitRequestParams,
  ElicitResult,
  ListToolsResult,
  Progress,
} from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { lastValueFrom, Observable, type Subscriber } from 'rxjs';
import { MCP_OPTIONS } from '../common/options.js';
import { DONE, type MaybePromise } from '../common/promises.js';
import {
  type CallingClient,
  type ClientIdentity,
  currentMcpCall,
  McpCall,
  type McpHttpCall,
  type OutboundMessage,
  type OutboundOptions,
} from '../calls/mcp-call.js';
import type { McpExchange } from '../calls/reply.js';
import type { McpAnswer, McpQuestion } from '../calls/mcp-questions.js';
import { logError } from '../calls/operator-log.js';
import { McpServerRequestError } from '../calls/server-request.error.js';
import { SessionRuntime } from '../sessions/session-runtime.js';
import { shutdownRefusal } from '../protocol/errors.js';
import { type JsonRpcRequest, type RequestId, tooManyValues } from '../protocol/json-rpc.js';
import { LATEST_LEGACY_REVISION } from '../protocol/revisions.js';
import { sdk } from '../protocol/spec.js';
import { hasMoreValues } from '../protocol/values.js';

/** A tool call emits progress, any number of times, then the result. @publicApi */
export type McpToolCallEvent =
  ({ readonly type: 'progress' } & Progress) | { readonly type: 'result'; readonly result: CallToolResult };

type SamplingQuestion = Extract<McpQuestion, { method: 'sampling/createMessage' }>;
type SamplingAnswer = McpAnswer<{ method: 'sampling/createMessage'; params: object }>;

/** Describes the caller of a call from within the app, and answers questions of the tool. @publicApi */
export interface McpToolCallOptions {
  /**
   * The principal of the call, as in `ctx.principal`.
   *
   * @default within a handler, while its call runs, its caller, if `request` is not given either; elsewhere anonymous
   */
  principal?: string;
  /**
   * The object that guards get as the HTTP request: `{ user }`, for example. `headers` are empty unless they are given.
   *
   * @default within a handler that of its caller, if `principal` is not given either
   */
  request?: object;
  /** Answers elicitations. @default the tool gets an error: they cannot be answered */
  elicit?: (params: ElicitRequestParams) => MaybePromise<ElicitResult>;
  /** Answers sampling requests. @default the tool gets an error: they cannot be answered */
  sample?: (params: SamplingQuestion['params']) => MaybePromise<SamplingAnswer>;
  /** The answer to `roots/list`. @default the tool gets an error: there is no answer */
  roots?: McpAnswer<{ method: 'roots/list' }>['roots'];
  /** The call carries it as `_meta`. */
  meta?: Readonly<Record<string, unknown>>;
}

/**
 * Calls tools of an endpoint from within the app, for agents that run inside it. A call is one like those of clients,
 * with guards, pipes, schemas, interceptors, time limit and telemetry, but for HTTP: the guards of the endpoint itself
 * do not run. Arguments and result are copied as JSON copies them.
 *
 * ```ts
 * constructor(private readonly tools: McpToolCaller) {}
 *
 * const { content } = await this.tools.callTool('find_order', { id: 'A-1042' }, { principal: user.id });
 * ```
 *
 * The methods are those of `McpClient`, which calls tools of other servers. An app with several endpoints injects by name:
 * `@InjectMcp(McpToolCaller, name)`.
 *
 * @publicApi
 */
@Injectable()
export class McpToolCaller {
  /** @internal */
  constructor(
    @Inject(SessionRuntime) private readonly runtime: SessionRuntime,
    @Inject(MCP_OPTIONS) private readonly limits: { readonly maxBodyValues: number },
  ) {}

  /**
   * Calls a tool.
   *
   * @param name the name of the tool
   * @param args its arguments
   * @param options beside those of all calls: `signal` cancels the call, `onprogress` is called with its progress; what it throws
   *   is logged
   * @returns the result; `isError` says that the tool has failed
   * @throws (rejects) ProtocolError the error that a client would get, for an unknown tool, for example; McpError
   *   UNAVAILABLE when the app has closed, PAYLOAD_TOO_LARGE above `maxBodyValues`; TypeError for arguments that JSON cannot write; the reason of `signal`
   */
  callTool(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: McpToolCallOptions & { signal?: AbortSignal; onprogress?: (progress: Progress) => void } = {},
  ): Promise<CallToolResult> {
    const { signal, onprogress, ...others } = options;
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const subscription = this.callTool$(name, args, others).subscribe({
        next: (event) => {
          if (event.type === 'result') return resolve(event.result);
          const { type: _, ...progress } = event;
          try {
            onprogress?.(progress);
          } catch (error) {
            logError(error);
          }
        },
        error: reject,
      });
      const cancel = (): void => {
        subscription.unsubscribe();
        reject(signal!.reason as Error);
      };
      // A handler runs, and `onprogress` with it, before there is a subscription.
      if (signal?.aborted) return cancel();
      signal?.addEventListener('abort', cancel, { once: true });
      subscription.add(() => signal?.removeEventListener('abort', cancel));
    });
  }

  /**
   * Calls a tool on subscription: emits its progress, then its result, then completes. Unsubscribing cancels the call.
   *
   * @param name of the tool
   * @param args its arguments
   * @returns an Observable that fails with what `callTool()` throws
   */
  callTool$(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    options: McpToolCallOptions = {},
  ): Observable<McpToolCallEvent> {
    return this.#call$('tools/call', { name, arguments: args }, options) as Observable<McpToolCallEvent>;
  }

  /**
   * Lists the tools that a caller may call: those that it would see in `tools/list`, without those for views alone.
   * Their schemas are plain JSON Schemas, as agent frameworks take them: `parameters` of OpenAI, `jsonSchema()` of the
   * AI SDK, `schema` of LangChain.
   *
   * @param options the caller
   * @returns all tools, not a page of them
   * @throws (rejects) McpError UNAVAILABLE when the app has closed
   */
  async listTools(options: Pick<McpToolCallOptions, 'principal' | 'request'> = {}): Promise<McpListedTool[]> {
    const tools: McpListedTool[] = [];
    for (let cursor: string | undefined; ;) {
      const { result } = (await lastValueFrom(this.#call$('tools/list', { cursor }, options))) as ListEvent;
      tools.push(...result.tools.filter(isForModels).map(listedTool));
      if (result.nextCursor === undefined) return tools;
      cursor = result.nextCursor;
    }
  }

  #call$(method: string, params: object, options: McpToolCallOptions): Observable<WithinEvent> {
    return new Observable((subscriber) => {
      const { calls } = this.runtime;
      // Calls that run may call others while the app drains.
      if (calls.shutdown.is === 'stopped') throw shutdownRefusal();
      const client = new ClientWithin(subscriber, options);
      const call = new McpCall(
        httpOf(options),
        requestOf(method, params, options, this.limits.maxBodyValues),
        client,
        client,
      );
      calls.add(call);
      calls.dispatch(call);
      return () => calls.cancel(call, new Error('The caller unsubscribed from the result.'));
    });
  }
}

/** A tool, as a model or its framework gets it. @publicApi */
export type McpListedTool = Pick<
  ListToolsResult['tools'][number],
  'name' | 'title' | 'description' | 'inputSchema' | 'outputSchema' | 'annotations'
>;

type WithinEvent = ({ readonly type: 'progress' } & Progress) | { readonly type: 'result'; readonly result: object };
type ListEvent = { readonly result: ListToolsResult };

/** Returns whether a tool is for models: views call the others. */
function isForModels({ _meta }: ListToolsResult['tools'][number]): boolean {
  const { visibility } = (_meta?.['ui'] ?? {}) as { visibility?: readonly string[] };
  return visibility?.includes('model') !== false;
}

/** Returns a tool as a model gets it, with the schemas alone: some frameworks refuse the name of a dialect. */
function listedTool({
  name,
  title,
  description,
  inputSchema,
  outputSchema,
  annotations,
}: McpListedTool): McpListedTool {
  return {
    name,
    inputSchema: withoutDialect(inputSchema),
    ...(title !== undefined && { title }),
    ...(description !== undefined && { description }),
    ...(outputSchema && { outputSchema: withoutDialect(outputSchema) }),
    ...(annotations && { annotations }),
  };
}

function withoutDialect<Schema extends object>({ $schema: _, ...schema }: Schema & { $schema?: unknown }): Schema {
  return schema as unknown as Schema;
}

let lastId = 0;

/** Returns the request as a client would send it. @throws TypeError for what JSON cannot write; McpError PAYLOAD_TOO_LARGE */
function requestOf(method: string, given: object, { meta }: McpToolCallOptions, maxValues: number): JsonRpcRequest {
  const id = `within-${++lastId}`;
  const params = { ...given, _meta: { ...meta, progressToken: id } };
  const text = JSON.stringify(params);
  if (hasMoreValues(text, maxValues)) throw tooManyValues(maxValues);
  return { jsonrpc: '2.0', id, method, params: JSON.parse(text) as typeof params };
}

/**
 * Returns the principal and request of a call: both from the running call, or both from the options. A timer that a handler has
 * started may run after its call: it must not have the rights of its caller.
 */
function httpOf({ principal, request }: McpToolCallOptions): McpHttpCall {
  const named = principal !== undefined || request !== undefined;
  const running = currentMcpCall();
  if (running?.isServed && !named) {
    const { routeParams } = running;
    return { era: 'legacy', principal: running.principal, request: running.request, routeParams };
  }
  const headed = request && 'headers' in request ? request : { headers: {}, ...request };
  return { era: 'legacy', principal, request: headed };
}

/**
 * Acts as the client and the exchange of one call from within the app. It is of the legacy era, whose handlers ask while they
 * run, and has no session.
 */
class ClientWithin implements CallingClient, McpExchange {
  readonly carries = 'messages';
  /** The app reads results as its tools return them. */
  readonly takesAnyStructure = true;

  constructor(
    private readonly subscriber: Subscriber<WithinEvent>,
    private readonly options: McpToolCallOptions,
  ) {}

  identity(): ClientIdentity {
    const { elicit, sample, roots } = this.options;
    const capabilities = {
      ...(elicit && { elicitation: { form: {}, url: {} } }),
      ...(sample && { sampling: { tools: {} } }),
      ...(roots && { roots: {} }),
    };
    return { protocolVersion: LATEST_LEGACY_REVISION, capabilities, clientInfo: { name: 'within', version: '' } };
  }

  /** Returns `false`: the app has a log of its own. */
  wantsLog(): boolean {
    return false;
  }

  notify({ method, params }: OutboundMessage): Promise<void> {
    if (method === 'notifications/progress') {
      const { progressToken: _, ...progress } = params as { progressToken: unknown } & Progress;
      this.subscriber.next({ type: 'progress', ...progress });
    }
    return DONE;
  }

  request({ method, params }: OutboundMessage, { signal }: OutboundOptions, call: McpCall): Promise<unknown> {
    const over = signal ? AbortSignal.any([signal, call.signal]) : call.signal;
    return new Promise((resolve, reject) => {
      const giveUp = (): void =>
        reject(new McpServerRequestError('CALL_OVER', `"${method}" has ended because its call is over.`));
      // An answered call has ended too; its signal does not abort.
      if (over.aborted || call.state !== 'open') return giveUp();
      over.addEventListener('abort', giveUp, { once: true });
      const answered = this.#answerTo(method, params);
      answered.then(resolve, reject).finally(() => over.removeEventListener('abort', giveUp));
    });
  }

  async #answerTo(method: string, params: unknown): Promise<unknown> {
    const { elicit, sample, roots } = this.options;
    if (method === 'elicitation/create' && elicit) return elicit(params as ElicitRequestParams);
    if (method === 'sampling/createMessage' && sample) return sample(params as SamplingQuestion['params']);
    if (method === 'roots/list' && roots) return { roots };
    const option = Object.hasOwn(ANSWERED_BY, method) ? ` Give callTool() the option "${ANSWERED_BY[method]}".` : '';
    const text = `"${method}" cannot be answered: the app itself called the tool, without a function that answers this request.${option}`;
    throw new McpServerRequestError('CLIENT_LACKS_CAPABILITY', text);
  }

  // ---- the way back ---------------------------------------------------------------------------------------------

  answer(_id: RequestId, data: string): void {
    const { result, error } = JSON.parse(data) as JsonRpcAnswer;
    if (error) return this.subscriber.error(new sdk.ProtocolError(error.code, error.message, error.data));
    this.subscriber.next({ type: 'result', result: result! });
    this.subscriber.complete();
  }

  refuse(error: Error): boolean {
    this.subscriber.error(error);
    return true;
  }

  /** The caller has unsubscribed. */
  settle(): void {}
  cancel(): void {}
  send(): Promise<void> {
    return DONE;
  }
  closeStream(): boolean {
    return false;
  }
  get reply(): Promise<never> {
    return Promise.reject(new Error('A call from within the app has no HTTP reply.'));
  }
}

interface JsonRpcAnswer {
  readonly result?: object;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

const ANSWERED_BY: Readonly<Record<string, string>> = {
  'elicitation/create': 'elicit',
  'sampling/createMessage': 'sample',
  'roots/list': 'roots',
};
