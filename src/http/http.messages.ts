import { shown } from '../wire/wire.messages.js';

/** What users read of this room. */
export const httpMessages = {
  forbiddenHost: (host: string | undefined, name: string | undefined) =>
    `The Host ${shown(host)} is not allowed here. ${
      name === undefined
        ? 'Send a host name of this server (see "allowedHosts").'
        : `If clients reach this server by that name, as through a tunnel, a proxy or a container, add "${name}" to the option "allowedHosts".`
    }`,
  forbiddenOrigin: (origin: string) =>
    `The Origin ${shown(origin)} is not allowed here. If pages from there may call this server, add it to the option "allowedOrigins" as it stands here.`,
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
    `The option "principal" must return a text, a number, a bigint or undefined; it returned ${kindOf(got)}. Requests whose principal is anything else are refused. Return what identifies the caller, such as request.user.email.`,
  userWithoutPrincipal: (user: unknown) =>
    `A request was refused: its "request.user" is ${kindOf(user)}, and "principal" gives no id for it. As anonymous callers, such users would share their sessions. Set the option "principal" to a function that returns what identifies the user, such as (request) => request.user.email; by default it is "sub", "id", "userId" or "_id".`,
  noPrincipal: () =>
    'Guards let in a request for which "principal" gives no id: its caller is anonymous, and an anonymous session can be used by all who know its id. Set the option "principal" to say who sends a request; if callers are meant to be anonymous, set it to () => undefined.',
  refused: (status: number) => (status >= 500 ? 'Internal error' : `The request was refused (${status}).`),
  noSessionGuard: () =>
    'The session guard did not run. A class given as "sessionGuard" must call super.canActivate(context).',
};

/** What a value is, without what is in it: a user may hold secrets. */
function kindOf(value: unknown): string {
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value !== 'object' || value === null) return `a ${typeof value}`;
  if (Array.isArray(value)) return 'an array';
  const keys = Object.keys(value);
  return keys.length > 0 ? `an object with the keys ${shown(keys.slice(0, 10))}` : 'an object without keys';
}
