import type { InputRequest, LoggingLevel, RequestOptions, ServerContext } from '@modelcontextprotocol/server';

/** The session ends a question that is not answered in time, and says so to the client; the SDK's own timer comes later. */
const SDK_TIMER_LATER_MS = 1_000;
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** The way to the client through the SDK: on the stream of the call. */
export class SdkClientPort {
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

  /** Asks the client of a session, and waits. @throws ServerRequestError, SdkError */
  send(question: InputRequest): Promise<unknown> {
    const { mcpReq } = this.context;
    switch (question.method) {
      case 'elicitation/create':
        return mcpReq.elicitInput(question.params, this.#options);
      case 'sampling/createMessage':
        return mcpReq.requestSampling(question.params, this.#options);
      case 'roots/list':
        return mcpReq.send(question, this.#options);
    }
  }

  /** An explicit id wins over the async context; a question dies with the call that asked it. */
  get #options(): RequestOptions {
    const { id, signal } = this.context.mcpReq;
    return { relatedRequestId: id, signal, timeout: Math.min(this.timeoutMs + SDK_TIMER_LATER_MS, LONGEST_TIMER_MS) };
  }
}
