export { OtelInstrumentation, type OtelInstrumentationOptions } from './otel-instrumentation.js';
export { OtelPackageError, traceContextMeta } from './otel-api.js';
