import { type ArgumentsHost, Catch, type ExceptionFilter, HttpException, Inject } from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { EmptyError } from 'rxjs';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import { guardThrew, isPlain, logError, logger, nameOfEnhancer } from '../calls/operator-log.js';
import { loneRequestId, McpEndpoint } from '../eras/mcp-endpoint.js';
import { type JsonRpcErrorBody, McpError } from '../protocol/errors.js';
import { errorResponse, type RequestId } from '../protocol/json-rpc.js';
import { isVisit, VISIT_HEADERS, visitText } from './edge/visit.js';
import { Challenges } from './credentials.js';
import { McpRequestReader, type PlatformRequest } from './mcp-incoming.js';
import { UnknownPrincipalError } from './principal.js';
import { RefusalLog } from './refusal-log.js';
import { McpResponder, rawResponse } from './responder.js';
import { UnservedRequests } from './unserved-requests.js';

/** The JSON-RPC code of a refusal that has none of its own. */
const REFUSED = -32000;
const INTERNAL_ERROR = -32603;

/**
 * Answers a request that failed with a JSON-RPC error, or a person in a browser with a text (E19), and the status that HTTP has for
 * it. A response that has begun is destroyed.
 *
 * @returns the status
 * @internal
 */
export function refuse(
  error: unknown,
  request: PlatformRequest,
  response: object,
  reader: McpRequestReader,
  responder: McpResponder,
): number {
  const raw = rawResponse(response);
  const body = reader.bodyOf(request);
  const { status, headers, payload } = answerTo(error, body ? loneRequestId(body) : null);
  if (raw.headersSent) raw.destroy();
  else {
    reader.discardRest(request, raw);
    if (isVisit(request)) {
      const body = visitText(status, payload.error.message);
      responder.send(response, { kind: 'text', body, status, headers: { ...headers, ...VISIT_HEADERS } });
    } else
      responder.send(response, { kind: 'json', body: JSON.stringify(payload), status, ...(headers && { headers }) });
  }
  return status;
}

function answerTo(error: unknown, requestId: RequestId | null): Answer {
  if (error instanceof McpError) {
    const { status, headers, rpcCode, message, data } = error;
    return { status, headers, payload: errorResponse(error.requestId ?? requestId, rpcCode, message, data) };
  }
  const status = error instanceof HttpException ? refusingStatus(error) : 500;
  // Details of a failure inside are not sent to the client.
  if (status >= 500) return { status, payload: errorResponse(requestId, INTERNAL_ERROR, 'Internal error') };
  const text = (error as HttpException).message || `The request was refused (${status}).`;
  return { status, payload: errorResponse(requestId, REFUSED, text) };
}

/**
 * Returns the status of a refusal. A client that reads a status of success would wait on for the answer to its request.
 */
function refusingStatus(error: HttpException): number {
  const status = error.getStatus();
  return status >= 300 && status < 600 ? status : 500;
}

interface Answer {
  readonly status: number;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly payload: JsonRpcErrorBody;
}

/** Answers and logs the errors that guards and the controller of an endpoint throw. @internal */
@Catch()
export class McpExceptionFilter implements ExceptionFilter {
  /** An error in the log has named these options. */
  readonly #missed = new Set<UnknownPrincipalError['option']>();

  constructor(
    @Inject(McpRequestReader) private readonly reader: McpRequestReader,
    @Inject(McpEndpoint) private readonly endpoint: McpEndpoint,
    @Inject(McpResponder) private readonly responder: McpResponder,
    @Inject(RefusalLog) private readonly refusals: RefusalLog,
    @Inject(Challenges) private readonly challenges: Challenges,
    @Inject(ENDPOINT_NAME) private readonly name: Pick<EndpointName, 'guards' | 'path'>,
    @Inject(ApplicationConfig) private readonly app: ApplicationConfig,
    @Inject(UnservedRequests) private readonly unserved: UnservedRequests,
  ) {}

  catch(thrown: unknown, context: ArgumentsHost): void {
    const http = context.switchToHttp();
    const request = http.getRequest<PlatformRequest>();
    // An interceptor has ended without a value, and without the controller.
    if (thrown instanceof EmptyError && !this.reader.isServed(request)) {
      void this.unserved.ended(request, http.getResponse<object>());
      return;
    }
    const refusal = this.endpoint.refusalFor(thrown);
    const error = this.challenges.by ? this.challenges.by.refusal(refusal, request) : refusal;
    const status = refuse(error, request, http.getResponse<object>(), this.reader, this.responder);
    if (refusal instanceof McpError) this.refusals.note(request, refusal);
    // The message of the error is left out: a guard may quote the token that it refuses.
    else if (status < 500) this.refusals.note(request, { status, message: `${(refusal as Error).name} of the app.` });
    else if (isPlain(error)) logger.error(this.#origin(error, request));
    else this.#log(error);
  }

  /** Names what threw a value without a message. The guards run before the request is read. */
  #origin(thrown: unknown, request: PlatformRequest): string {
    const { guards, path } = this.name;
    if (this.reader.bodyOf(request))
      return `The option "principal", the session guard or an interceptor of the MCP endpoint "${path}" threw ${String(thrown)}: throw an Error.`;
    const scoped = this.app.getGlobalRequestGuards().map(({ name }) => String(name));
    return guardThrew([...this.app.getGlobalGuards().map(nameOfEnhancer), ...scoped, ...guards], thrown);
  }

  #log(error: unknown): void {
    if (!(error instanceof UnknownPrincipalError)) return logError(error);
    // One missing option fails every request: one error in the log is enough.
    if (this.#missed.has(error.option)) return logger.debug(error.message);
    this.#missed.add(error.option);
    logger.error(error.message);
  }
}
