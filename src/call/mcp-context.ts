import type {
  CreateMessageRequest,
  CreateMessageResult,
  CreateMessageResultWithTools,
  ElicitRequestFormParams,
  ElicitRequestURLParams,
  ElicitResult,
  ListRootsResult,
  LoggingLevel,
} from '@modelcontextprotocol/server';
import type { RequestId } from '../wire/json-rpc.js';
import type { McpCall, McpSessionInfo } from './mcp-call.js';

/**
 * How a handler speaks to its client while it runs. Each era has its own way; handlers do not know which.
 *
 * @internal
 */
export interface McpClientPort {
  /** Sends a notification that belongs to the request being handled. */
  notify(notification: { method: string; params?: Record<string, unknown> }): Promise<void>;
  /** Sends a log message if the client wants messages of that level. */
  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void>;
  elicit(key: string, params: ElicitRequestFormParams | ElicitRequestURLParams): Promise<ElicitResult>;
  sample(
    key: string,
    params: CreateMessageRequest['params'],
  ): Promise<CreateMessageResult | CreateMessageResultWithTools>;
  roots(key: string): Promise<ListRootsResult>;
}

/** What a handler reports of its progress. @publicApi */
export interface McpProgress {
  /** Grows with every report. */
  progress: number;
  total?: number;
  message?: string;
}

/**
 * The call that a handler serves: who calls, and the way back to the client while it runs. Injected with `@McpCtx()`.
 *
 * @publicApi
 */
export class McpContext {
  /** @internal */
  constructor(
    private readonly call: McpCall,
    private readonly port: McpClientPort,
    private readonly progressToken: string | number | undefined,
  ) {}

  /** The session of the call; `undefined` in the era without sessions. */
  get session(): McpSessionInfo | undefined {
    return this.call.session;
  }
  /** Who calls, as the option `principal` says; `undefined`: anonymous. */
  get principal(): string | undefined {
    return this.call.principal;
  }
  /** Express' `Request` or Fastify's `FastifyRequest`, as the guards of the endpoint left it. */
  get request(): unknown {
    return this.call.request;
  }
  get requestId(): RequestId | undefined {
    return this.call.requestId;
  }
  get method(): string {
    return this.call.method;
  }
  /** Aborts when nobody waits for the result any more. */
  get signal(): AbortSignal {
    return this.call.signal;
  }
  /** The call itself. */
  get mcpCall(): McpCall {
    return this.call;
  }

  /**
   * Reports progress. Nothing is sent when the client did not ask for it.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
   */
  async progress(progress: number | McpProgress, total?: number, message?: string): Promise<void> {
    const { progressToken } = this;
    if (progressToken === undefined) return;
    const report = typeof progress === 'object' ? progress : { progress, total, message };
    await this.port.notify({ method: 'notifications/progress', params: { progressToken, ...defined(report) } });
  }

  /**
   * Sends a log message, if the client wants messages of that level.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
   */
  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void> {
    return this.port.log(level, data, logger);
  }

  /** Sends a notification that belongs to this call. */
  notify(method: string, params?: Record<string, unknown>): Promise<void> {
    return this.port.notify(params ? { method, params } : { method });
  }

  /**
   * Asks the user for input.
   *
   * @param key names the question within the handler: the same each time the handler runs
   * @returns what the user did
   * @throws ServerRequestError when the client cannot be asked
   * @see https://modelcontextprotocol.io/specification/2025-11-25/client/elicitation
   */
  elicit(key: string, params: ElicitRequestFormParams | ElicitRequestURLParams): Promise<ElicitResult> {
    return this.port.elicit(key, params);
  }

  /**
   * Asks the client's model.
   *
   * @param key names the question within the handler
   * @throws ServerRequestError when the client cannot be asked
   * @see https://modelcontextprotocol.io/specification/2025-11-25/client/sampling
   */
  sample(
    key: string,
    params: CreateMessageRequest['params'],
  ): Promise<CreateMessageResult | CreateMessageResultWithTools> {
    return this.port.sample(key, params);
  }

  /**
   * Asks for the client's roots.
   *
   * @param key names the question within the handler
   * @throws ServerRequestError when the client cannot be asked
   * @see https://modelcontextprotocol.io/specification/2025-11-25/client/roots
   */
  roots(key: string): Promise<ListRootsResult> {
    return this.port.roots(key);
  }

  /** Ends the connection, not the call: the client comes back for the result. @returns whether there was one to end */
  closeStream(): boolean {
    return this.call.closeStream();
  }
}

function defined<T extends object>(values: T): Partial<T> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Partial<T>;
}
