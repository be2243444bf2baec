import { shown } from '../wire/wire.messages.js';

/** What users read of this room. */
export const httpMessages = {
  forbiddenHost: (host: string | undefined) =>
    `The Host ${shown(host)} is not allowed here. Use a host name of this server, or add it to "allowedHosts".`,
  forbiddenOrigin: (origin: string) =>
    `The Origin ${shown(origin)} is not allowed here. Call from an allowed origin, or add it to "allowedOrigins".`,
  hostsUnlisted: () =>
    'A request arrived on a network address while "allowedHosts" is empty, so every Host is let in and DNS rebinding is possible. List the host names of this server in "allowedHosts".',
  badAllowedHost: (entry: unknown) =>
    `"allowedHosts" has the entry ${shown(entry)}, which is not a host. Write "mcp.example.com", "mcp.example.com:8443" or "[::1]"; there are no wildcards.`,
  badAllowedOrigin: (entry: unknown) =>
    `"allowedOrigins" has the entry ${shown(entry)}, which is not an origin. Write "https://app.example.com", with the scheme and without a path; there are no wildcards.`,
  methodNotAllowed: (method: string | undefined, allow: readonly string[]) =>
    `The method ${shown(method)} is not served here. Use one of: ${allow.join(', ')}.`,
  unknownAdapter: (type: string) =>
    `The HTTP adapter ${shown(type)} is not supported. Use @nestjs/platform-express or @nestjs/platform-fastify.`,
  encodedBody: (encoding: string) =>
    `The body has the Content-Encoding ${shown(encoding)}, which is not accepted. Send the JSON as it is.`,
  bodyTooLarge: (maxBytes: number) =>
    `The body is larger than ${maxBytes} bytes. Send less at once, or raise "maxBodyBytes".`,
  bodyTooSlow: (timeoutMs: number) =>
    `The body did not arrive within ${timeoutMs} ms. Send it faster, or raise "bodyTimeoutMs".`,
  bodyNotUtf8: () => 'The body is not valid UTF-8. Send one JSON-RPC 2.0 message as JSON, in UTF-8.',
  bodyCut: () => 'The connection was closed before the whole body had arrived. Repeat the request.',
  bodyTaken: () =>
    'The body was read by something else in this app before it reached the MCP endpoint, and left nothing in "request.body". Exclude the path of the endpoint there.',
  notJson: (type: string | undefined) => `The Content-Type is ${shown(type)}; a POST needs "application/json".`,
  postNotAcceptable: (accept: string | undefined) =>
    `The Accept header is ${shown(accept)}; a POST must accept both "application/json" and "text/event-stream".`,
  getNotAcceptable: (accept: string | undefined) =>
    `The Accept header is ${shown(accept)}; a GET must accept "text/event-stream".`,
  badPrincipal: (got: unknown) =>
    `The option "principal" must return a text or undefined; it returned ${shown(got)} (${typeof got}).`,
  noPrincipal: () =>
    'Guards are configured, but "principal" finds nobody in a request that they let in: all such callers count as one, the anonymous, and who knows the id of a session can use it. Set "principal" to say who sends a request.',
  refused: (status: number) => (status >= 500 ? 'Internal error' : `The request was refused (${status}).`),
  shuttingDown: () => 'This server is shutting down. Try again in a moment.',
  noSessionGuard: () =>
    'The session guard did not run. A class given as "sessionGuard" must call super.canActivate(context).',
};
