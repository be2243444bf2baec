import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import type * as client from 'prom-client';
import type { Gauge, Registry } from 'prom-client';
import { Subscription } from 'rxjs';
import { systemClock } from '../core/common/clock.js';
import { McpOptionError } from '../core/common/options.js';
import { within } from '../core/common/promises.js';
import type { McpCallEnd } from '../core/calls/mcp-instrumentation.js';
import { ATTR, BUCKETS, LabelNames, outcomeForServer, revisionOf } from '../core/protocol/conventions.js';
import { hostsIn } from '../core/plugins/mcp-plugin.js';
import { type McpCounts, McpSessionService } from '../core/sessions/mcp-session.service.js';
import { requirePromClient } from './prom-client-package.cjs';

type PromClient = typeof client;

/** Options of `McpPrometheusModule.forRoot()`. @publicApi */
export interface McpPrometheusOptions {
  /** Where the metrics are registered. @default the default registry of prom-client, `register` */
  registry?: Registry;
}

export const PROMETHEUS_OPTIONS = Symbol('nestjs-mcp-streamable:PROMETHEUS_OPTIONS');

/** `prom-client` is not installed. @publicApi */
export class PrometheusPackageError extends Error {
  override readonly name = 'PrometheusPackageError';
  readonly code = 'PROMETHEUS_PACKAGE_MISSING';
}

/** The gauges by the counts that they show. */
const OF_NODE = {
  live: ['mcp_server_live_sessions', 'Sessions that are live on this node.'],
  inFlight: ['mcp_server_calls_in_flight', 'Requests of clients that are being handled.'],
  outbound: ['mcp_server_questions_waiting', 'Requests to clients that wait for an answer.'],
  streams: ['mcp_server_streams', 'Streams that are being written or read.'],
  readers: ['mcp_server_readers', 'Responses that are open on streams.'],
  subscriptions: ['mcp_server_listens', 'Open subscriptions/listen requests.'],
  tasks: ['mcp_server_tasks', 'Tasks that run on this node.'],
} as const;
const OF_STORES = {
  sessions: ['mcp_server_sessions', 'Sessions in the session store, which nodes may share.'],
  events: ['mcp_server_logged_events', 'Events in the event log; 0 if the store does not count them.'],
  bytes: ['mcp_server_logged_bytes', 'Bytes in the event log; 0 if the store does not count them.'],
} as const;
const GAUGES = { ...OF_NODE, ...OF_STORES };
type Count = keyof typeof GAUGES;

/** Stores have this many milliseconds to answer a scrape. Prometheus gives up after 10 seconds. */
const STORE_LIMIT_MS = 1_000;

/**
 * Registers the metrics of all endpoints of an app: durations, counts and counters, in a registry of prom-client until
 * the app closes.
 *
 * The label `endpoint` is the name of an endpoint, or its path. No label holds a session id, a URI, or an unknown name
 * of a client. A scrape queries each store once; only the gauges of an unavailable store are missing.
 */
@Injectable()
export class McpMetrics implements OnModuleInit, OnApplicationShutdown {
  readonly #prom: PromClient;
  readonly #registry: Registry;
  readonly #names: string[] = [];
  readonly #subscriptions = new Subscription();
  readonly #gauges = new Map<Count, Gauge>();
  #services: readonly McpSessionService[] = [];
  #collecting: Promise<void> | undefined;

  constructor(
    @Inject(PROMETHEUS_OPTIONS) { registry }: McpPrometheusOptions,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {
    this.#prom = loadPromClient();
    this.#registry = registry ?? this.#prom.register;
  }

  onModuleInit(): void {
    this.#services = hostsIn(this.modules).map((host) => host.get(McpSessionService));
    this.#registerGauges();
    this.#observe();
  }

  /** Removes the metrics: another app of this process may register its own. */
  onApplicationShutdown(): void {
    this.#subscriptions.unsubscribe();
    for (const name of this.#names) this.#registry.removeSingleMetric(name);
  }

  #observe(): void {
    const operation = this.#histogram('mcp_server_operation_duration_seconds', 'Duration of MCP requests.', [
      'mcp_method_name',
      'gen_ai_tool_name',
      'error_type',
      'mcp_protocol_version',
    ]);
    const session = this.#histogram('mcp_server_session_duration_seconds', 'Duration of MCP sessions.', [
      'mcp_protocol_version',
    ]);
    const refusals = this.#counter(
      'mcp_server_refusals_total',
      'Requests refused with 4xx or 5xx before a handler was called.',
      ['endpoint', 'http_response_status_code', 'option'],
    );
    const faults = this.#counter('mcp_server_store_faults_total', 'Failures of stores.', ['endpoint', 'fatal']);
    const evictions = this.#counter(
      'mcp_server_evictions_total',
      'Resumptions that asked for events which the log had evicted.',
      ['endpoint'],
    );
    const names = new LabelNames();
    for (const { endpoint, calls$, ends$, events$, refusals$ } of this.#services) {
      this.#subscriptions.add(
        calls$.subscribe((end) => operation.observe(labelsOf(end, names), end.durationMs / 1000)),
      );
      this.#subscriptions.add(
        ends$.subscribe(({ protocolVersion, durationMs }) =>
          session.observe({ mcp_protocol_version: revisionOf(protocolVersion) }, durationMs / 1000),
        ),
      );
      this.#subscriptions.add(
        refusals$.subscribe(({ status, option }) =>
          refusals.inc({ endpoint, http_response_status_code: status, ...(option !== undefined && { option }) }),
        ),
      );
      this.#subscriptions.add(
        events$.subscribe((event) => {
          if (event.type === 'store-fault') faults.inc({ endpoint, fatal: String(event.fatal) });
          else if (event.type === 'events-evicted') evictions.inc({ endpoint });
        }),
      );
    }
  }

  #histogram(name: string, help: string, labelNames: string[]) {
    const registers = this.#registersFor(name);
    return new this.#prom.Histogram({ name, help, labelNames, buckets: BUCKETS, registers });
  }

  #counter(name: string, help: string, labelNames: string[]) {
    return new this.#prom.Counter({ name, help, labelNames, registers: this.#registersFor(name) });
  }

  /** @throws McpOptionError when the registry already has the metric, of another app, which stays registered */
  #registersFor(name: string): Registry[] {
    if (this.#registry.getSingleMetric(name)) throw new McpOptionError('registry', TAKEN);
    this.#names.push(name);
    return [this.#registry];
  }

  #registerGauges(): void {
    for (const [count, [name, help]] of Object.entries(GAUGES)) {
      // All gauges of a scrape wait for the same counts.
      const collect = () => (this.#collecting ??= this.#collect().finally(() => (this.#collecting = undefined)));
      const registers = this.#registersFor(name);
      this.#gauges.set(
        count as Count,
        new this.#prom.Gauge({ name, help, labelNames: ['endpoint'], registers, collect }),
      );
    }
  }

  /**
   * Returns the counts of an endpoint, `undefined` if a store does not answer in time. The scrape must not wait, since
   * it also has the metrics of the app.
   */
  async #countsOf(service: McpSessionService): Promise<McpCounts | undefined> {
    let counts: McpCounts | undefined;
    const counting = service.counts().then((counted) => (counts = counted));
    await within(counting, STORE_LIMIT_MS, systemClock).catch(() => {});
    return counts;
  }

  async #collect(): Promise<void> {
    await Promise.all(
      this.#services.map(async (service) => {
        const { endpoint } = service;
        const node = service.nodeCounts();
        for (const count of Object.keys(OF_NODE) as (keyof typeof OF_NODE)[])
          this.#gauges.get(count)!.set({ endpoint }, node[count]);
        const counts = await this.#countsOf(service);
        for (const count of Object.keys(OF_STORES) as (keyof typeof OF_STORES)[]) {
          if (counts) this.#gauges.get(count)!.set({ endpoint }, counts[count]);
          else this.#gauges.get(count)!.remove({ endpoint });
        }
      }),
    );
  }
}

const TAKEN =
  'The registry already has the metrics of an MCP endpoint. Import McpPrometheusModule.forRoot() once, in one module of the app; with several apps in one process, give each its own registry: McpPrometheusModule.forRoot({ registry: new Registry() }).';

function labelsOf(end: McpCallEnd, names: LabelNames) {
  const { method, protocolVersion } = end.call;
  const tool = method === 'tools/call' ? names.name(end) : undefined;
  const { [ATTR.ERROR_TYPE]: type } = outcomeForServer(end.outcome);
  return {
    mcp_method_name: names.method(end),
    mcp_protocol_version: revisionOf(protocolVersion),
    ...(tool !== undefined && { gen_ai_tool_name: tool }),
    ...(type !== undefined && { error_type: type }),
  };
}

/** @throws PrometheusPackageError */
export function loadPromClient(load: () => unknown = requirePromClient): PromClient {
  try {
    return load() as PromClient;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    const text =
      'nestjs-mcp-streamable/prometheus needs the package "prom-client", which is not installed: npm install prom-client';
    throw new PrometheusPackageError(text, { cause });
  }
}
