import { type Attributes, context, metrics, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { CompositePropagator, W3CBaggagePropagator, W3CTraceContextPropagator } from '@opentelemetry/core';
import {
  AggregationTemporality,
  type DataPoint,
  type Histogram,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics';
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base';

/** The OpenTelemetry SDK, set up globally as an app does it, and exporting to memory. */
export class Telemetry {
  readonly #spans = new InMemorySpanExporter();
  readonly #metrics = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  readonly #reader = new PeriodicExportingMetricReader({ exporter: this.#metrics, exportIntervalMillis: 3_600_000 });
  readonly #meters = new MeterProvider({ readers: [this.#reader] });
  readonly tracers = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(this.#spans)] });

  constructor() {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
    const propagators = [new W3CTraceContextPropagator(), new W3CBaggagePropagator()];
    propagation.setGlobalPropagator(new CompositePropagator({ propagators }));
    trace.setGlobalTracerProvider(this.tracers);
    metrics.setGlobalMeterProvider(this.#meters);
  }

  /** Those that have ended, in that order. */
  get spans(): ReadableSpan[] {
    return this.#spans.getFinishedSpans();
  }

  named(name: string): ReadableSpan[] {
    return this.spans.filter((span) => span.name === name);
  }

  /** Points of a histogram. */
  async points(name: string): Promise<{ attributes: Attributes; count: number; boundaries: number[] }[]> {
    this.#metrics.reset();
    await this.#meters.forceFlush();
    const all = this.#metrics
      .getMetrics()
      .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap(({ metrics }) => metrics));
    return all
      .filter(({ descriptor }) => descriptor.name === name)
      .flatMap(({ dataPoints }) => dataPoints as DataPoint<Histogram>[])
      .map(({ attributes, value }) => ({ attributes, count: value.count, boundaries: value.buckets.boundaries }));
  }

  async close(): Promise<void> {
    await Promise.all([this.tracers.shutdown(), this.#meters.shutdown()]);
    for (const part of [context, propagation, trace, metrics]) part.disable();
  }
}
