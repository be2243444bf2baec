import { Subscription } from 'rxjs';
import { activeTraceId } from '../core/common/active-trace.js';
import { randomToken } from '../core/common/random-token.js';
import { infoOf } from '../core/calls/call-info.js';
import type { McpCall, McpSessionInfo } from '../core/calls/mcp-call.js';
import type { McpCallEnd, McpCallInfo, McpRefusal } from '../core/calls/mcp-instrumentation.js';
import type { McpHandlerTarget, McpTarget } from '../core/calls/mcp-target.js';
import { safely } from '../core/plugins/call-hooks.js';
import type { McpCallHooks, McpEndpointHost, McpEndpointPlugin } from '../core/plugins/mcp-plugin.js';
import { excerpt } from '../core/protocol/errors.js';
import { sessionIdOf } from '../core/protocol/conventions.js';
import { METHODS } from '../core/protocol/methods.js';
import type { Redaction } from '../core/protocol/redaction.js';
import type { McpAuditOutcome, McpAuditRecord } from './audit-record.js';
import { namesOf, type ResolvedAuditOptions } from './audit.options.js';
import { RefusalCounts, type RefusedRequest } from './refusal-counts.js';

/** A text that a client chooses is cut to so many characters. */
const LONGEST = 256;
const LONGEST_URI = 2_048;
/** Matches the scheme of a URI. */
const SCHEME = /^[a-z][a-z\d+.-]{0,63}:/i;

/** Writes records. */
interface RecordWriter {
  write(record: McpAuditRecord): void;
  assertWritten(record: McpAuditRecord): Promise<void> | undefined;
  /** @returns whether the sink has got it: it may be writing too many */
  writeRefusal(record: McpAuditRecord): boolean;
}

type RecordedClient = Pick<McpAuditRecord, 'clientName' | 'clientVersion' | 'sessionId'>;

/** Makes the records of one endpoint. */
export class EndpointAudit implements McpEndpointPlugin {
  readonly sensitive: readonly string[];
  /** The clients of sessions in calls of their owners, which do not change. */
  readonly #clients = new WeakMap<object, RecordedClient>();
  #over = false;

  constructor(
    private readonly endpoint: McpEndpointHost,
    private readonly redaction: Redaction<McpCallInfo>,
    private readonly writer: RecordWriter,
    private readonly options: ResolvedAuditOptions,
  ) {
    this.sensitive = namesOf(options);
  }

  begin(): Subscription {
    const recording = new Subscription(() => (this.#over = true));
    if (this.options.refusals) recording.add(this.#countRefusals());
    return recording;
  }

  call(call: McpCall): McpCallHooks {
    if (METHODS.get(call.method)?.quiet) return { answered: (end) => this.#quietEnd(call, end) };
    // What is known of the call when it begins: its handler may change the arguments.
    let begun: McpAuditRecord | undefined;
    const begin = (): McpAuditRecord => (begun = this.#recordOf(call, addressOf(call.request)));
    return {
      // With `required`, the attempt is recorded before guards and handler; else no failure refuses the call.
      admit: this.options.required ? () => this.writer.assertWritten(begin()) : () => void safely(begin),
      // Without a record, the call has ended while the list of a catalogue was asked for.
      answered: (end) => this.#write(begun ?? this.#recordOf(call), end),
      ended: (end) => {
        // The end of a task, under the id of its call.
        if (end.taskId !== undefined && begun) this.#write(begun, end);
      },
    };
  }

  #quietEnd(call: McpCall, end: McpCallEnd): void {
    if (end.outcome !== 'ok' && end.outcome !== 'cancelled') this.#write(this.#recordOf(call), end);
  }

  #write(begun: McpAuditRecord, { outcome, durationMs, result, taskId }: McpCallEnd): void {
    if (this.#over) return;
    this.writer.write(
      Object.freeze({
        ...begun,
        time: this.#time(),
        ...outcomeOf(outcome, result),
        ...(taskId !== undefined && { taskId }),
        durationMs: Math.round(durationMs * 1_000) / 1_000,
      }),
    );
  }

  #countRefusals(): Subscription {
    const recordOf = (request: RefusedRequest, count: number): McpAuditRecord =>
      Object.freeze({ ...this.#head('refused'), ...request, ...(count > 1 && { count }) });
    const counts = new RefusalCounts((...of) => this.writer.writeRefusal(recordOf(...of)), this.endpoint.clock);
    const counting = this.endpoint.refusals$.subscribe((refusal) => counts.add(requestOf(refusal)));
    counting.add(() => counts.close((...of) => this.writer.write(recordOf(...of))));
    return counting;
  }

  /** @param ip of the client; absent for a call that was not recorded when it began */
  #recordOf(call: McpCall, ip?: string): McpAuditRecord {
    const info = infoOf(call);
    const { method, name, uri, principal, scopes, requestId, protocolVersion, meta } = info;
    const kind = kindOf(method);
    const record = present({
      ...this.#head('attempt'),
      method: shortened(method),
      kind,
      name: shortened(name) ?? this.#uriOf(uri, call.target),
      principal,
      scopes: Array.isArray(scopes) ? [...(scopes as readonly string[])] : undefined,
      ip,
      ...this.#clientOf(info, call.session),
      requestId: typeof requestId === 'string' ? shortened(requestId) : requestId,
      protocolVersion,
      traceId: activeTraceId() ?? traceIdIn(meta),
      ...this.#argumentsOf(info, call.target),
    });
    return Object.freeze(record);
  }

  #clientOf(info: McpCallInfo, session: McpSessionInfo | undefined): RecordedClient {
    const { sessionId, principal } = info;
    // A session guard of the app may let others use the session, and what is recorded of its id depends on the caller.
    const own = session?.principal === principal ? session : undefined;
    const known = own && this.#clients.get(own);
    if (known) return known;
    const { clientInfo } = info;
    const client = {
      clientName: shortened(clientInfo.name),
      clientVersion: shortened(clientInfo.version),
      sessionId: sessionId === undefined ? undefined : sessionIdOf(sessionId, principal),
    };
    if (own) this.#clients.set(own, client);
    return client;
  }

  /**
   * Returns what is recorded of the arguments: nothing for a tool that the endpoint does not have, because no schema says what
   * is sensitive in them. The client may have misspelt its name.
   */
  #argumentsOf(info: McpCallInfo, target: McpTarget | undefined): Partial<McpAuditRecord> {
    if (kindOf(info.method) !== 'tool' || this.endpoint.offer.serves === 'servers')
      return this.redaction.of(info, undefined);
    return target ? this.redaction.of(info, target.inputSchema) : {};
  }

  /** Returns the URI of a resource without what the record must not have; its template says what its parts are. */
  #uriOf(uri: string | undefined, target: McpTarget | undefined): string | undefined {
    if (uri === undefined) return undefined;
    // The endpoint refuses it, and no template says what its parts are.
    if (uri.length > LONGEST_URI) return `${SCHEME.exec(uri)?.[0] ?? ''}[cut]`;
    const { handlers } = this.endpoint;
    // One of a source is known by the call alone.
    const found = target?.kind === 'template' ? [target as McpHandlerTarget] : [];
    const templates = handlers.get('resource', uri) ? [] : [...found, ...handlers.all('template')];
    for (const { template } of templates) {
      const variables = template!.written(uri);
      if (variables) return this.redaction.uri(uri, variables, LONGEST_URI);
    }
    return this.redaction.uri(uri, {}, LONGEST_URI);
  }

  #head(outcome: McpAuditOutcome): Pick<McpAuditRecord, 'id' | 'time' | 'outcome' | 'endpoint' | 'nodeId'> {
    const { name, path, nodes } = this.endpoint;
    return { id: randomToken(), time: this.#time(), outcome, endpoint: name ?? path, nodeId: nodes.nodeId };
  }

  #time(): string {
    return new Date(this.endpoint.clock.now()).toISOString();
  }
}

function outcomeOf(
  outcome: McpCallEnd['outcome'],
  result: object | undefined,
): Pick<McpAuditRecord, 'outcome' | 'code' | 'taskId'> {
  if (typeof outcome === 'number') return { outcome: 'failed', code: outcome };
  if (outcome === 'tool_error') return { outcome: 'failed' };
  if (outcome !== 'ok') return { outcome };
  const { resultType, taskId } = (result ?? {}) as { readonly resultType?: unknown; readonly taskId?: unknown };
  if (resultType === 'task') return { outcome: 'task', ...(typeof taskId === 'string' && { taskId }) };
  return { outcome: resultType === 'input_required' ? 'asked' : 'served' };
}

function requestOf({ status, option, code: reason, principal, ip, method, name }: McpRefusal): RefusedRequest {
  const asked = { method: shortened(method), kind: kindOf(method), name: shortened(name) };
  return present({ ...asked, principal, ip, status, reason, option });
}

function kindOf(method: string | undefined): McpAuditRecord['kind'] {
  return method === undefined ? undefined : METHODS.get(method)?.kind;
}

/** Returns the address of the client, of Express' `Request` and Fastify's alike. */
function addressOf(request: unknown): string | undefined {
  const { ip, socket } = (request ?? {}) as {
    readonly ip?: unknown;
    readonly socket?: { readonly remoteAddress?: unknown };
  };
  const address = ip ?? socket?.remoteAddress;
  return typeof address === 'string' ? address : undefined;
}

/** Matches the trace context that a client sends (W3C Trace Context). */
const TRACEPARENT = /^[\da-f]{2}-(?!0{32})([\da-f]{32})-[\da-f]{16}-[\da-f]{2}/;

function traceIdIn(meta: McpCallInfo['meta']): string | undefined {
  const { traceparent } = meta ?? {};
  return typeof traceparent === 'string' ? TRACEPARENT.exec(traceparent)?.[1] : undefined;
}

function shortened(text: unknown): string | undefined {
  return typeof text === 'string' ? excerpt(text, LONGEST) : undefined;
}

/** Returns the properties that have a value. */
function present<T extends object>(properties: T): T {
  const kept: Partial<T> = {};
  for (const name in properties) if (properties[name] !== undefined) kept[name] = properties[name];
  return kept as T;
}
