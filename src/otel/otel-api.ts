import type * as api from '@opentelemetry/api';
import { BUCKETS } from '../core/protocol/conventions.js';
import { requireOtelApi } from '../core/common/otel-package.cjs';

export type OpenTelemetryApi = typeof api;

/** `@opentelemetry/api` is not installed. @publicApi */
export class OtelPackageError extends Error {
  override readonly name = 'OtelPackageError';
  readonly code = 'OTEL_PACKAGE_MISSING';
}

/**
 * Loads the API. Copies of the package share their state, so it does not matter which one an app imports.
 *
 * @throws OtelPackageError
 */
export function loadApi(load: () => unknown = requireOtelApi): OpenTelemetryApi {
  try {
    return load() as OpenTelemetryApi;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    const text =
      'nestjs-mcp-streamable/otel needs the package "@opentelemetry/api", which is not installed: npm install @opentelemetry/api';
    throw new OtelPackageError(text, { cause });
  }
}

/** Tracers and meters have this instrumentation scope. */
export const SCOPE = 'nestjs-mcp-streamable';

/** Makes a histogram of durations, in seconds. */
export function durationsOf(meter: api.Meter, name: string, description: string): api.Histogram {
  return meter.createHistogram(name, { description, unit: 's', advice: { explicitBucketBoundaries: BUCKETS } });
}

let loaded: OpenTelemetryApi | undefined;

/**
 * Returns the context of the active span, as `_meta` carries it (SEP-414): `traceparent`, `tracestate`, `baggage`,
 * depending on the propagators of the app. For the option `requestMeta` of our client.
 *
 * ```ts
 * McpClientModule.forRoot({ clients: { orders: { url, requestMeta: traceContextMeta } } });
 * ```
 *
 * @throws OtelPackageError
 * @publicApi
 */
export function traceContextMeta(): Record<string, string> {
  const { context, propagation } = (loaded ??= loadApi());
  const meta: Record<string, string> = {};
  propagation.inject(context.active(), meta);
  return meta;
}
