import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Inject, Logger } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import type { ServerResponse } from 'node:http';
import { loneRequestId, McpEndpoint } from '../endpoint/mcp-endpoint.js';
import { McpError } from '../wire/errors.js';
import { errorResponse, type RequestId } from '../wire/json-rpc.js';
import { UnknownPrincipalError } from './http.errors.js';
import { httpMessages } from './http.messages.js';
import { McpRequestReader, type PlatformRequest } from './mcp-incoming.js';
import { RefusalLog } from './refusal-log.js';

/** JSON-RPC code of a refusal that has none of its own. */
const REFUSED = -32000;
const INTERNAL_ERROR = -32603;

/** Whatever goes wrong at the endpoint becomes a JSON-RPC error, with the status that HTTP has for it. @internal */
@Catch()
export class McpExceptionFilter implements ExceptionFilter {
  readonly #logger = new Logger('McpStreamable');
  #saidPrincipal = false;

  constructor(
    @Inject(HttpAdapterHost) private readonly host: HttpAdapterHost,
    @Inject(McpRequestReader) private readonly reader: McpRequestReader,
    @Inject(McpEndpoint) private readonly endpoint: McpEndpoint,
    @Inject(RefusalLog) private readonly refusals: RefusalLog,
  ) {}

  catch(thrown: unknown, context: ArgumentsHost): void {
    const exception = this.endpoint.refusalFor(thrown);
    const http = context.switchToHttp();
    const response: unknown = http.getResponse();
    const raw = (response as { raw?: ServerResponse }).raw ?? (response as ServerResponse);
    const request = http.getRequest<PlatformRequest>();
    const body = this.reader.bodyOf(request);
    const { status, headers, payload } = this.#answer(exception, request.method, body ? loneRequestId(body) : null);
    if (raw.headersSent) return void raw.destroy();
    const adapter = this.host.httpAdapter;
    this.reader.discardRest(request, raw);
    for (const [name, value] of Object.entries(headers ?? {})) adapter.setHeader(response, name, value);
    adapter.setHeader(response, 'Content-Type', 'application/json');
    adapter.reply(response, JSON.stringify(payload), status);
  }

  #answer(exception: unknown, method: string, requestId: RequestId | null): Answer {
    if (exception instanceof McpError) {
      const { status, headers } = exception;
      this.refusals.note(method, exception);
      const refusal = exception.requestId === null ? exception.withRequestId(requestId) : exception;
      return { status, headers, payload: refusal.toResponse() };
    }
    if (exception instanceof HttpException) {
      const status = exception.getStatus();
      const message = status >= 500 ? httpMessages.refused(status) : exception.message || httpMessages.refused(status);
      if (status >= 500) this.#log(exception);
      // Without the text: a guard may quote the token that it refuses.
      else this.refusals.note(method, { status, message: `${exception.name} of the app.` });
      return { status, payload: errorResponse(requestId, status >= 500 ? INTERNAL_ERROR : REFUSED, message) };
    }
    this.#log(exception);
    return { status: 500, payload: errorResponse(requestId, INTERNAL_ERROR, httpMessages.refused(500)) };
  }

  /** The client is told nothing of what went wrong inside; the operator all of it. */
  #log(exception: unknown): void {
    if (exception instanceof UnknownPrincipalError) {
      // One missing option fails every request: saying it once is enough.
      if (this.#saidPrincipal) return this.#logger.debug(exception.message);
      this.#saidPrincipal = true;
      return this.#logger.error(exception.message);
    }
    if (exception instanceof Error) this.#logger.error(exception.message, exception.stack);
    else this.#logger.error(exception);
  }
}

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly payload: unknown;
}
