import { shown } from '../wire/wire.messages.js';

/** What users read of how handlers are run, and of their results. */
export const invocationMessages = {
  // Results
  severalResults: (origin: string) =>
    `${origin} emitted more than one value that is neither toolProgress() nor toolLog(). Exactly one is the result: emit the others with a tag, or end with last(), toArray() or reduce().`,
  unsendable: (type: string) =>
    `A handler returned a ${type}, which cannot be sent. Return a text, an object, or content.`,
  binaryToolResult: () =>
    'A tool returned bytes without saying what they are. Return a content block: { type: "image", data: bytes.toString("base64"), mimeType: "image/png" }, or a "resource" with a "blob".',
  notJson: () => 'A handler returned what cannot be JSON: a cycle, a bigint, or nothing at all.',
  brokenByInterceptor: (origin: string, made: unknown) =>
    `What ${origin} returned is right, but an interceptor of the app made ${shapeOf(made)} of it, which cannot be sent. Let the interceptor leave MCP handlers alone: if (McpExecutionContext.isMcp(context)) return next.handle(). This is said once.`,
  notAResult: (kind: string, problem: string) =>
    `A ${kind} returned a result, or content, that is not what the specification says. ${problem}`,
  noStructuredContent: () => 'The tool has an output schema, but its result has no structured content.',
  outputMismatch: () => 'The result of the tool does not match its output schema; the cause says where.',
  notAPrompt: () =>
    'A prompt returned something else than texts, content blocks and messages ({ role: "user" | "assistant", content }).',
  internalError: (kind: string, name: string) =>
    `Internal error in the ${kind} ${shown(name)}. The log of the server says why.`,
  failed: (origin: string, error: string) => `${origin} failed: ${error}`,

  // Running through Nest
  noMethod: (method: string) => `there is no method "${method}" on it.`,
  enhancerNotProvided: (kind: string, name: string) =>
    `Nest would silently skip its ${kind} ${name}, as it makes those only for providers that are registered by class. Register the provider by its class or by "useClass", or give the ${kind} as an instance.`,
  scopedGlobalSkipped: (kind: string, name: string) =>
    `Nest would silently skip the global ${kind} ${name}, which is request- or transient-scoped: it runs such ones only around providers that are registered by a class with an MCP decorator.`,
  routeParam: (decorator: string) =>
    `a parameter has ${decorator}, which only a route of HTTP has. Use @McpArgs(), @McpCtx(), @Req(), @Headers(), or a decorator of your own.`,
  undecoratedParam: (index: number) =>
    `nothing says what its parameter ${index} is (counted from 0), while others have decorators. Decorate it: @McpArgs('name') for an argument, @McpCtx() for the context. A single parameter without a decorator is the context.`,
  visibilityFailed: (origin: string, error: string) =>
    `A guard of ${origin} failed while a list was made, so the entry was hidden. This is said once. ${error}`,
};

/** Names alone: a value may be a secret. */
function shapeOf(value: unknown): string {
  if (Array.isArray(value)) return 'an array';
  if (typeof value !== 'object' || value === null) return shown(typeof value);
  return `{ ${Object.keys(value).slice(0, 8).join(', ')} }`;
}
