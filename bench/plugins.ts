import type { DynamicModule } from '@nestjs/common';
import type { McpStreamableOptions, ToolOptions } from 'nestjs-mcp-streamable';

/**
 * What a call meets on its way, by the names in `PLUGINS` (see the work `plugins`). Nothing of a plugin is loaded without its
 * name: it would be in the memory that is measured.
 */
const names = new Set(process.env['PLUGINS']?.split(','));
const has = (name: string): boolean => names.has(name) || names.has('all');

/** No call repeats another one, and what is kept of a call must not grow with the calls. */
const IDEMPOTENCY = { key: ({ a }: { a: number }) => String(a), ttlMs: 1_000, maxKeys: Infinity };

interface Plugins {
  readonly tool: Pick<ToolOptions, 'timeoutMs' | 'maxConcurrent' | 'idempotency'>;
  readonly endpoint: Pick<McpStreamableOptions, 'instrumentation'>;
  readonly modules: readonly DynamicModule[];
}

export const plugins: Plugins = {
  tool: {
    ...(has('limits') && { timeoutMs: 10_000, maxConcurrent: 1_000 }),
    ...(has('idempotency') && { idempotency: IDEMPOTENCY }),
  },
  endpoint: has('otel') || has('otel-sdk') ? await telemetry(!names.has('otel')) : {},
  modules: [...(has('audit') ? [await audit()] : []), ...(has('live') ? [await live()] : [])],
};

async function audit(): Promise<DynamicModule> {
  const { McpAuditModule } = await import('nestjs-mcp-streamable/audit');
  return McpAuditModule.forRoot({ required: true, sink: { write: async () => {} } });
}

async function live(): Promise<DynamicModule> {
  const { McpLiveModule } = await import('nestjs-mcp-streamable/live');
  return McpLiveModule.forRoot({ unguarded: 'loopback' });
}

/** @param sdk whether spans and durations are recorded, and dropped when they would be exported */
async function telemetry(sdk: boolean): Promise<Plugins['endpoint']> {
  const { OtelInstrumentation } = await import('nestjs-mcp-streamable/otel');
  if (sdk) await recording();
  return { instrumentation: new OtelInstrumentation() };
}

async function recording(): Promise<void> {
  const [api, { AsyncLocalStorageContextManager }, { W3CTraceContextPropagator }, traces, metrics] = await Promise.all([
    import('@opentelemetry/api'),
    import('@opentelemetry/context-async-hooks'),
    import('@opentelemetry/core'),
    import('@opentelemetry/sdk-trace-base'),
    import('@opentelemetry/sdk-metrics'),
  ]);
  const exported = (_: unknown, done: (result: { code: number }) => void): void => done({ code: 0 });
  const done = async (): Promise<void> => {};
  const spans = new traces.BatchSpanProcessor({ export: exported, shutdown: done, forceFlush: done });
  const exporter = { export: exported, shutdown: done, forceFlush: done };
  const reader = new metrics.PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 10_000 });
  api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  api.propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  api.trace.setGlobalTracerProvider(new traces.BasicTracerProvider({ spanProcessors: [spans] }));
  api.metrics.setGlobalMeterProvider(new metrics.MeterProvider({ readers: [reader] }));
}
