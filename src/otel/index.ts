/** @module nestjs-mcp-streamable/otel */

export { OtelInstrumentation, type OtelInstrumentationOptions } from './otel-instrumentation.js';
export { OtelClientInstrumentation, type OtelClientInstrumentationOptions } from './otel-client-instrumentation.js';
export { OtelPackageError, traceContextMeta } from './otel-api.js';
