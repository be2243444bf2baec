import type * as api from '@opentelemetry/api';
import { requireOtelApi } from './otel-package.cjs';

let loaded: typeof api | false | undefined;

/** Returns the id of the trace of the active span; `undefined` without a span, and where `@opentelemetry/api` is not installed. */
export function activeTraceId(): string | undefined {
  try {
    loaded ??= requireOtelApi() as typeof api;
  } catch {
    loaded = false;
  }
  const context = loaded && loaded.trace.getActiveSpan()?.spanContext();
  return context && loaded && loaded.isSpanContextValid(context) ? context.traceId : undefined;
}
