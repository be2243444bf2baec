import type {
  CreateMessageRequest,
  CreateMessageResult,
  CreateMessageResultWithTools,
  ElicitRequestFormParams,
  ElicitRequestURLParams,
  ElicitResult,
  ListRootsResult,
  LoggingLevel,
  RequestOptions,
  ServerContext,
} from '@modelcontextprotocol/server';
import type { McpClientPort } from '../../call/mcp-context.js';

/** The way to the client in the legacy era: notifications and requests on the stream of the call. */
export class SdkClientPort implements McpClientPort {
  constructor(
    private readonly context: ServerContext,
    private readonly timeoutMs: number,
  ) {}

  notify(notification: { method: string; params?: Record<string, unknown> }): Promise<void> {
    return this.context.mcpReq.notify(notification);
  }

  log(level: LoggingLevel, data: unknown, logger?: string): Promise<void> {
    return this.context.mcpReq.log(level, data, logger);
  }

  elicit(_key: string, params: ElicitRequestFormParams | ElicitRequestURLParams): Promise<ElicitResult> {
    return this.context.mcpReq.elicitInput(params, this.#options);
  }

  sample(
    _key: string,
    params: CreateMessageRequest['params'],
  ): Promise<CreateMessageResult | CreateMessageResultWithTools> {
    return this.context.mcpReq.requestSampling(params, this.#options);
  }

  roots(_key: string): Promise<ListRootsResult> {
    return this.context.mcpReq.send({ method: 'roots/list' }, this.#options);
  }

  /** An explicit id wins over the async context; a question dies with the call that asked it. */
  get #options(): RequestOptions {
    const { id, signal } = this.context.mcpReq;
    return { relatedRequestId: id, signal, timeout: this.timeoutMs };
  }
}
