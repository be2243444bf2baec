import { Inject, Injectable } from '@nestjs/common';
import { CallObserver } from '../calls/call-observer.js';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import type { McpRefusal } from '../calls/mcp-instrumentation.js';
import { logger } from '../calls/operator-log.js';
import type { McpErrorCode } from '../protocol/errors.js';
import { ipOf } from '../protocol/local-caller.js';
import { credentialsOf } from './credentials.js';
import { readOf } from './mcp-incoming.js';

/** Describes a refused request. */
interface Refusal {
  readonly status: number;
  /** Says why the request is refused; it holds no credentials. */
  readonly message: string;
  /** The option that decides the refusal. */
  readonly option?: string | undefined;
  readonly code?: McpErrorCode | undefined;
  /** Whether it is the first of its kind, and so a warning. */
  readonly isFirst?: boolean;
}

/** The part that is read of a refused request. */
interface RefusedRequest {
  readonly method?: string | undefined;
  readonly ip?: string | undefined;
  readonly raw?: object | undefined;
}

/** Describes a refused request to observers, by what was read of it. */
function described(request: RefusedRequest, { status, option, code, message: reason }: Refusal): McpRefusal {
  const { principal, message } = readOf(request);
  const { name } = (message?.params ?? {}) as { readonly name?: unknown };
  return {
    status,
    option,
    code,
    reason: status === 400 ? undefined : reason,
    principal: principal ?? credentialsOf(request)?.principal,
    ip: ipOf(request),
    method: message?.method,
    name: typeof name === 'string' ? name : undefined,
  };
}

/**
 * Logs the requests that one endpoint refuses, for operators, and notifies observers of them.
 *
 * Each is a line at `debug`. The first refusal because of an option is a warning, since clients cannot correct it.
 * Responses with 400 are not logged: their texts quote bodies. A line names the endpoint instead of the URL, which may
 * contain a token.
 */
@Injectable()
export class RefusalLog {
  /** A warning has already named these options. */
  readonly #named = new Set<string>();

  constructor(
    @Inject(ENDPOINT_NAME) private readonly endpoint: Pick<EndpointName, 'path'>,
    @Inject(CallObserver) private readonly observer: CallObserver,
  ) {}

  /** @param request the platform's, or Node's for a request that the edge refused */
  note(request: RefusedRequest, refusal: Refusal): void {
    const { status, message, option, isFirst } = refusal;
    this.observer.refused(() => described(request, refusal));
    if (status === 400) return;
    const text = `${request.method} on the MCP endpoint "${this.endpoint.path}" was answered with ${status}: ${message}`;
    const isNew = option === undefined ? isFirst : !this.#named.has(option);
    if (!isNew) return logger.debug(text);
    if (option !== undefined) this.#named.add(option);
    logger.warn(`${text} Further refusals of this kind are logged at "debug".`);
  }
}
