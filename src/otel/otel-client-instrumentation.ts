import type { Attributes, Histogram, MeterProvider, Span, Tracer, TracerProvider } from '@opentelemetry/api';
import { object, type OptionTable, type Resolved, resolveOptions } from '../core/common/options.js';
import type { JsonRpcRequest, JsonRpcResponse } from '../core/protocol/json-rpc.js';
import {
  ATTR,
  CLIENT_OPERATION_DURATION,
  LabelNames,
  namedAttributes,
  NETWORK,
  outcomeForSender,
  revisionOf,
  spanNameOf,
} from '../core/protocol/conventions.js';
import { durationsOf, loadApi, type OpenTelemetryApi, SCOPE } from './otel-api.js';

/** Options of {@link OtelClientInstrumentation}. @publicApi */
export interface OtelClientInstrumentationOptions {
  /** @default the global one, looked up when it is first used */
  tracerProvider?: TracerProvider;
  /** @default the global one, looked up when it is first used */
  meterProvider?: MeterProvider;
}

const OTEL_CLIENT_TABLE = {
  tracerProvider: object(undefined),
  meterProvider: object(undefined),
} satisfies OptionTable<OtelClientInstrumentationOptions>;

/** The part that is read of `McpClientRequest` of the client's entry, which this one does not import. */
interface SentRequest {
  readonly message: JsonRpcRequest;
  readonly url: URL;
  readonly sessionId: string | undefined;
  readonly protocolVersion: string | undefined;
}

/**
 * # Spans and metrics of the requests of our client
 *
 * One CLIENT span per request, all of its attempts included. It is active while the request is sent, so that `traceContextMeta`
 * makes it the parent of the server's span.
 *
 * ```ts
 * const instrumentation = new OtelClientInstrumentation();
 * McpClientModule.forRoot({ clients: { orders: { url, instrumentation, requestMeta: traceContextMeta } } });
 * ```
 *
 * Invariant: names of tools and prompts are on metrics only where the server has answered with a result.
 *
 * @publicApi
 */
export class OtelClientInstrumentation {
  readonly #options: Resolved<typeof OTEL_CLIENT_TABLE>;
  readonly #api: OpenTelemetryApi;
  readonly #names = new LabelNames();
  #tracer: Tracer | undefined;
  #durations: Histogram | undefined;

  /** @throws McpOptionError; OtelPackageError if `@opentelemetry/api` is not installed */
  constructor(options: OtelClientInstrumentationOptions = {}) {
    this.#options = resolveOptions(OTEL_CLIENT_TABLE, options);
    this.#api = loadApi();
  }

  async request(request: SentRequest, run: () => Promise<JsonRpcResponse>): Promise<JsonRpcResponse> {
    const { context, trace, SpanKind } = this.#api;
    const { message, url, sessionId, protocolVersion } = request;
    const { method, id, params: { name, uri } = {} } = message;
    const target = typeof name === 'string' ? name : undefined;
    const common: Attributes = {
      ...NETWORK,
      [ATTR.METHOD]: method,
      [ATTR.SERVER_ADDRESS]: url.hostname,
      [ATTR.SERVER_PORT]: Number(url.port || (url.protocol === 'https:' ? 443 : 80)),
      ...(protocolVersion !== undefined && { [ATTR.PROTOCOL_VERSION]: revisionOf(protocolVersion) }),
    };
    const attributes = {
      ...common,
      ...namedAttributes(method, target),
      [ATTR.REQUEST_ID]: String(id),
      ...(sessionId !== undefined && { [ATTR.SESSION_ID]: sessionId }),
      ...(typeof uri === 'string' && { [ATTR.RESOURCE_URI]: uri }),
    };
    const span = this.#tracing.startSpan(spanNameOf(method, target), { kind: SpanKind.CLIENT, attributes });
    const began = performance.now();
    const ended = (outcome: number | string, known = false): void => {
      const labels = {
        ...common,
        ...namedAttributes(method, known && target !== undefined ? this.#names.bounded(target) : undefined),
        ...outcomeForSender(outcome),
      };
      this.#metrics.record((performance.now() - began) / 1000, labels);
      this.#end(span, outcome);
    };
    try {
      const answer = await context.with(trace.setSpan(context.active(), span), run);
      if ('error' in answer) ended(answer.error.code);
      else ended((answer.result as { isError?: unknown }).isError === true ? 'tool_error' : 'ok', true);
      return answer;
    } catch (error) {
      ended(typeOf(error));
      throw error;
    }
  }

  #end(span: Span, outcome: number | string): void {
    span.setAttributes(outcomeForSender(outcome));
    if (outcome !== 'ok') span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
    span.end();
  }

  get #tracing(): Tracer {
    return (this.#tracer ??= (this.#options.tracerProvider ?? this.#api.trace).getTracer(SCOPE));
  }

  get #metrics(): Histogram {
    const make = (): Histogram => {
      const meter = (this.#options.meterProvider ?? this.#api.metrics).getMeter(SCOPE);
      return durationsOf(meter, CLIENT_OPERATION_DURATION, 'Duration of MCP requests, as their sender sees it.');
    };
    return (this.#durations ??= make());
  }
}

/** Returns the error type of a request without an answer: the HTTP status, or the stable code of the client's error. */
function typeOf(error: unknown): string {
  const { status, code, name } = (error ?? {}) as { status?: unknown; code?: unknown; name?: unknown };
  if (typeof status === 'number') return String(status);
  if (code === 'CANCELLED') return 'cancelled';
  return typeof code === 'string' ? code : typeof name === 'string' ? name : '_OTHER';
}
