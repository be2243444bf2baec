import type { Attributes, Context, Meter, MeterProvider, Span, Tracer, TracerProvider } from '@opentelemetry/api';
import { flag, object, type OptionTable, type Resolved, resolveOptions } from '../core/common/options.js';
import { currentMcpCall } from '../core/calls/mcp-call.js';
import type {
  McpCallEnd,
  McpCallInfo,
  McpInstrumentation,
  McpQuestionInfo,
  McpQuestionOutcome,
  McpSessionEnd,
} from '../core/calls/mcp-instrumentation.js';
import {
  ATTR,
  BAGGAGE,
  CLIENT_OPERATION_DURATION,
  LabelNames,
  methodOf,
  namedAttributes,
  NETWORK,
  OPERATION_DURATION,
  outcomeForSender,
  outcomeForServer,
  revisionOf,
  SESSION_DURATION,
  sessionIdOf,
  shortened,
  spanNameOf,
  TRACE_CONTEXT,
} from '../core/protocol/conventions.js';
import { durationsOf, loadApi, type OpenTelemetryApi, SCOPE } from './otel-api.js';

/** Options of {@link OtelInstrumentation}. @publicApi */
export interface OtelInstrumentationOptions {
  /**
   * Decides whether the trace context that a client sends in `_meta` becomes the parent of the span. With `false` the
   * span belongs to the trace of the HTTP request, for clients that must not choose trace ids and sampling.
   *
   * @default true
   */
  acceptContext?: boolean;
  /**
   * Decides whether the handler gets the baggage that a client sends in `_meta` with its trace context. The app may
   * send it on to other services, and trust its entries there: accept it only from clients that you trust. The option
   * has no effect if `acceptContext` is `false`.
   *
   * @default false
   */
  acceptBaggage?: boolean;
  /**
   * Decides whether spans carry the arguments of tools, which may hold what a telemetry backend must not.
   *
   * @default false
   */
  recordArguments?: boolean;
  /**
   * Decides whether spans carry the results of tools, which may hold what a telemetry backend must not.
   *
   * @default false
   */
  recordResults?: boolean;
  /** @default the global one, looked up when it is first used */
  tracerProvider?: TracerProvider;
  /** @default the global one, looked up when it is first used */
  meterProvider?: MeterProvider;
}

const OTEL_TABLE = {
  acceptContext: flag(true),
  acceptBaggage: flag(false),
  recordArguments: flag(false),
  recordResults: flag(false),
  tracerProvider: object(undefined),
  meterProvider: object(undefined),
} satisfies OptionTable<OtelInstrumentationOptions>;

/**
 * # Spans and metrics of calls, by the semantic conventions for MCP
 *
 * One SERVER span per request. It is active around guards, the handler and the subscription of an Observable, so that
 * spans of the application become its children. Its parent is the context in `_meta`, linked to the ambient span, which
 * is that of the HTTP request if that is instrumented; without such a context the ambient span is the parent. A request
 * of the server to its client is a CLIENT span below that of the handler. It carries no trace context, because baggage
 * of the app must not reach clients.
 *
 * ```ts
 * McpStreamableModule.forRoot({ serverInfo, instrumentation: new OtelInstrumentation() });
 * ```
 *
 * Invariants: a span that began ends once, with its call; no metric has a session id, a URI, or an unknown name of a
 * client.
 *
 * @publicApi
 */
export class OtelInstrumentation implements McpInstrumentation {
  readonly #options: Resolved<typeof OTEL_TABLE>;
  readonly #api: OpenTelemetryApi;
  readonly #names = new LabelNames();
  readonly #spans = new WeakMap<McpCallInfo, Span>();
  /** The keys of `_meta` that are taken from clients. */
  readonly #accepted: readonly string[];
  #tracer: Tracer | undefined;
  #histograms: ReturnType<typeof histogramsOf> | undefined;

  /** @throws McpOptionError; OtelPackageError if `@opentelemetry/api` is not installed */
  constructor(options: OtelInstrumentationOptions = {}) {
    this.#options = resolveOptions(OTEL_TABLE, options);
    const { acceptContext, acceptBaggage } = this.#options;
    this.#accepted = acceptContext ? [...TRACE_CONTEXT, ...(acceptBaggage ? [BAGGAGE] : [])] : [];
    this.#api = loadApi();
  }

  call<T>(info: McpCallInfo, run: () => T): T {
    const { context, trace, SpanKind } = this.#api;
    const ambient = context.active();
    const parent = this.#parentOf(info, ambient);
    const ofParent = trace.getSpanContext(parent);
    const ofAmbient = trace.getSpanContext(ambient);
    const links = ofAmbient && ofParent?.spanId !== ofAmbient.spanId ? [{ context: ofAmbient }] : [];
    const attributes = this.#attributesOf(info);
    addClient(attributes, currentMcpCall()?.request);
    const span = this.#tracing.startSpan(
      spanNameOf(info.method, info.name),
      { kind: SpanKind.SERVER, attributes, links },
      parent,
    );
    this.#spans.set(info, span);
    return context.with(trace.setSpan(parent, span), run);
  }

  ended(end: McpCallEnd): void {
    const { call, durationMs } = end;
    const outcome = outcomeForServer(end.outcome);
    this.#metrics.operation.record(durationMs / 1000, { ...lowCardinality(end, this.#names), ...outcome });
    const span = this.#spans.get(call);
    if (!span) return;
    this.#spans.delete(call);
    span.setAttributes(outcome);
    if (outcome[ATTR.ERROR_TYPE] !== undefined) span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
    // The number of span names is bounded: unknown names of clients are in attributes only.
    if (!end.handled) span.updateName(methodOf(end));
    if (this.#options.recordResults && call.method === 'tools/call' && end.result) {
      span.setAttribute(ATTR.TOOL_RESULT, textOf(end.result));
    }
    span.end();
  }

  question(question: McpQuestionInfo, outcome: Promise<McpQuestionOutcome>): void {
    const { method, requestId, sessionId, principal, protocolVersion } = question;
    const began = performance.now();
    const common = { ...NETWORK, [ATTR.METHOD]: method, [ATTR.PROTOCOL_VERSION]: revisionOf(protocolVersion) };
    const attributes = {
      ...common,
      [ATTR.REQUEST_ID]: String(requestId),
      [ATTR.SESSION_ID]: sessionIdOf(sessionId, principal),
    };
    const span = this.#tracing.startSpan(method, { kind: this.#api.SpanKind.CLIENT, attributes });
    void outcome.then((end) => {
      const ended = outcomeForSender(end);
      this.#metrics.question.record((performance.now() - began) / 1000, { ...common, ...ended });
      span.setAttributes(ended);
      if (end !== 'ok') span.setStatus({ code: this.#api.SpanStatusCode.ERROR });
      span.end();
    });
  }

  sessionEnded({ protocolVersion, durationMs }: McpSessionEnd): void {
    this.#metrics.session.record(durationMs / 1000, {
      ...NETWORK,
      [ATTR.PROTOCOL_VERSION]: revisionOf(protocolVersion),
    });
  }

  #parentOf({ meta }: McpCallInfo, ambient: Context): Context {
    if (!meta) return ambient;
    const sent = this.#accepted.filter((key) => typeof meta[key] === 'string');
    if (sent.length === 0) return ambient;
    return this.#api.propagation.extract(ambient, Object.fromEntries(sent.map((key) => [key, meta[key]])));
  }

  #attributesOf(info: McpCallInfo): Attributes {
    const { method, name, uri, requestId, sessionId, principal, protocolVersion } = info;
    const args =
      this.#options.recordArguments && method === 'tools/call'
        ? currentMcpCall()?.message.params?.['arguments']
        : undefined;
    const attributes: Attributes = {
      ...NETWORK,
      ...namedAttributes(method, name),
      [ATTR.METHOD]: shortened(method),
      [ATTR.PROTOCOL_VERSION]: revisionOf(protocolVersion),
    };
    if (requestId !== undefined) attributes[ATTR.REQUEST_ID] = shortened(String(requestId));
    if (sessionId !== undefined) attributes[ATTR.SESSION_ID] = sessionIdOf(sessionId, principal);
    if (uri !== undefined) attributes[ATTR.RESOURCE_URI] = shortened(uri);
    if (args !== undefined) attributes[ATTR.TOOL_ARGUMENTS] = textOf(args);
    return attributes;
  }

  get #tracing(): Tracer {
    return (this.#tracer ??= (this.#options.tracerProvider ?? this.#api.trace).getTracer(SCOPE));
  }

  /** Makes the metrics when they are first used: an SDK may be set up after this object was made. */
  get #metrics() {
    return (this.#histograms ??= histogramsOf((this.#options.meterProvider ?? this.#api.metrics).getMeter(SCOPE)));
  }
}

function histogramsOf(meter: Meter) {
  return {
    operation: durationsOf(meter, OPERATION_DURATION, 'Duration of MCP requests.'),
    question: durationsOf(meter, CLIENT_OPERATION_DURATION, 'Duration of MCP requests, as their sender sees it.'),
    session: durationsOf(meter, SESSION_DURATION, 'Duration of MCP sessions.'),
  };
}

function lowCardinality(end: McpCallEnd, names: LabelNames): Attributes {
  const { method, protocolVersion } = end.call;
  return {
    ...NETWORK,
    ...namedAttributes(method, names.name(end)),
    [ATTR.METHOD]: names.method(end),
    [ATTR.PROTOCOL_VERSION]: revisionOf(protocolVersion),
  };
}

/**
 * Adds the address of the client, of Express' `Request` and Fastify's alike: behind a trusted proxy `ip` is the
 * client, and the socket is not.
 */
function addClient(attributes: Attributes, request: unknown): void {
  const { ip, socket } = (request ?? {}) as { ip?: string; socket?: { remoteAddress?: string; remotePort?: number } };
  const address = ip ?? socket?.remoteAddress;
  if (address === undefined) return;
  attributes[ATTR.CLIENT_ADDRESS] = address;
  const port = address === socket?.remoteAddress ? socket.remotePort : undefined;
  if (port !== undefined) attributes[ATTR.CLIENT_PORT] = port;
}

function textOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? '';
  } catch {
    return '';
  }
}
