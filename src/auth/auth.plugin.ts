import type { IncomingMessage, ServerResponse } from 'node:http';
import type { OAuthTokenVerifier } from '@modelcontextprotocol/server';
import type { HttpServer, InjectionToken } from '@nestjs/common';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import type { McpClock } from '../core/common/clock.js';
import { contract, MCP_OPTIONS, McpOptionError, required } from '../core/common/options.js';
import { Challenges } from '../core/http/credentials.js';
import { HttpEdge } from '../core/http/edge/http-edge.js';
import { type McpEndpointHost, McpPlugin } from '../core/plugins/mcp-plugin.js';
import type { ResolvedAuthOptions } from './auth.options.js';
import { JwtVerifier } from './jwt-verifier.js';
import { metadataUrlOf, ResourceServer, WELL_KNOWN } from './resource-server.js';
import { type TokenVerifier, VerifiedTokens } from './verified-tokens.js';

const METHODS = 'GET, HEAD, OPTIONS';
/** The document is public, also for pages of any origin. */
const PUBLIC = { 'Access-Control-Allow-Origin': '*' } as const;

/**
 * Makes an endpoint an OAuth resource server: its guard asks the server of the option `auth`, and clients read its metadata.
 */
export class AuthPlugin extends McpPlugin {
  /** It acts on no call. */
  readonly ring = 'observe';

  /** @throws McpOptionError for a verifier that cannot be used, and when a route of the app has the path of the metadata */
  attach(endpoint: McpEndpointHost): undefined {
    const options = authOf(endpoint)!;
    const module = endpoint.get(ModuleRef);
    const server = new ResourceServer(options, verifierFor(options, endpoint.clock, module), endpoint.clock);
    server.prepare();
    endpoint.get(Challenges).by = server;
    const { httpAdapter } = module.get(HttpAdapterHost, { strict: false });
    // An app without HTTP, as behind serveMcpStdio(), serves no document.
    if (httpAdapter) new ProtectedResource(endpoint, options, httpAdapter).serve();
  }
}

/** Returns the option `auth` of an endpoint. */
function authOf(endpoint: McpEndpointHost): ResolvedAuthOptions | undefined {
  return endpoint.get<{ readonly auth: ResolvedAuthOptions | undefined }>(MCP_OPTIONS).auth;
}

/** Creates the verifier of an endpoint. @throws McpOptionError */
function verifierFor(options: ResolvedAuthOptions, clock: McpClock, module: ModuleRef): TokenVerifier {
  const { jwt, verifier, cacheMs } = options;
  // No verified tokens are kept: verifying a signature takes hardly longer than a hash and a look-up.
  if (jwt) return new JwtVerifier(jwt, options, clock);
  const given = verifier as OAuthTokenVerifier | InjectionToken<OAuthTokenVerifier>;
  if (typeof given === 'object' && 'verifyAccessToken' in given) return new VerifiedTokens(() => given, cacheMs, clock);
  let found: OAuthTokenVerifier | undefined;
  return new VerifiedTokens(() => (found ??= provided(given, module)), cacheMs, clock);
}

function provided(token: InjectionToken<OAuthTokenVerifier>, module: ModuleRef): OAuthTokenVerifier {
  const name = typeof token === 'function' ? token.name : String(token);
  let found: OAuthTokenVerifier;
  try {
    found = module.get<OAuthTokenVerifier>(token, { strict: false });
  } catch (cause) {
    const text = `The option "auth.verifier" is ${name}, which no module provides, or which is request-scoped. Add it to the "providers" of a module, or pass the verifier itself.`;
    throw Object.assign(new McpOptionError('auth.verifier', text), { cause });
  }
  return contract<OAuthTokenVerifier>(required, ['verifyAccessToken'])(found, `auth.verifier (${name})`);
}

/**
 * # Protected resource metadata (RFC 9728)
 *
 * The document names the authorization servers for clients. It is served in front of the app's router: a global
 * prefix would move it, a global guard would require the token that the client does not have yet, and an interceptor
 * might wrap it.
 *
 * | path below `/.well-known/oauth-protected-resource` | is |
 * |---|---|
 * | that of `resource` | where clients look |
 * | that of the endpoint in the app | the same, behind a proxy that strips a prefix |
 * | none | where clients look next; in an app with one such endpoint |
 *
 * Only the first is ours whatever the app has there; at the others its own routes come first.
 */
class ProtectedResource {
  readonly #edge: HttpEdge;
  readonly #body: string;
  /** The path that the metadata has by its URL. */
  readonly #own: string;
  /** Returns those of the other endpoints of the app. */
  readonly #taken: readonly string[];

  constructor(
    endpoint: McpEndpointHost,
    private readonly options: ResolvedAuthOptions,
    private readonly httpAdapter: HttpServer,
  ) {
    this.#edge = endpoint.get(HttpEdge);
    this.#body = JSON.stringify(documentOf(options));
    this.#own = pathOfMetadata(options);
    const others = endpoint.all().filter(({ index }) => index !== endpoint.index);
    this.#taken = others.flatMap((each) => authOf(each) ?? []).map(pathOfMetadata);
  }

  /** Serves the document. @throws McpOptionError when a route of the app has the path */
  serve(): void {
    const own = this.#own;
    if (this.#taken.includes(own)) {
      const text = `Two MCP endpoints of this app have the "auth.resource" ${this.options.resourceUri}, or one with the same path. Give each the URL at which clients reach it.`;
      throw new McpOptionError('auth.resource', text);
    }
    if (this.#edge.hasRoute(this.httpAdapter, own)) {
      const text = `A route of the app has the path ${own}, at which the option "auth" serves the metadata of the endpoint. Remove the route.`;
      throw new McpOptionError('auth.resource', text);
    }
    this.#edge.answerFirst(this.httpAdapter, (request, response) => {
      if (!request.url!.startsWith(WELL_KNOWN)) return false;
      if (!this.#paths().has(pathOf(request))) return false;
      this.#answer(request, response);
      return true;
    });
  }

  /**
   * Returns the paths. It computes them at each request for a well-known path, because the routes of the endpoint are
   * declared late.
   */
  #paths(): Set<string> {
    const local = this.#edge.paths().map((path) => WELL_KNOWN + path);
    const more = [...local, ...(this.#taken.length === 0 ? [WELL_KNOWN] : [])];
    // An app that is a resource itself serves its own document there.
    const isFree = (path: string): boolean =>
      !this.#taken.includes(path) && !this.#edge.hasRoute(this.httpAdapter, path);
    return new Set([this.#own, ...more.filter(isFree)]);
  }

  #answer({ method }: IncomingMessage, response: ServerResponse): void {
    if (method === 'OPTIONS') {
      const allowed = { 'Access-Control-Allow-Methods': METHODS, 'Access-Control-Allow-Headers': '*' };
      response.writeHead(204, { ...PUBLIC, ...allowed, 'Access-Control-Max-Age': '86400' }).end();
    } else if (method === 'GET' || method === 'HEAD') {
      const headers = {
        'Content-Type': 'application/json',
        'Content-Length': Buffer.byteLength(this.#body),
        'Cache-Control': 'public, max-age=3600',
      };
      response.writeHead(200, { ...PUBLIC, ...headers }).end(method === 'GET' ? this.#body : undefined);
    } else {
      response.writeHead(405, { ...PUBLIC, Allow: METHODS, 'Content-Length': 0 }).end();
    }
  }
}

function pathOfMetadata(options: ResolvedAuthOptions): string {
  return new URL(metadataUrlOf(options)).pathname;
}

/**
 * Returns the document.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9728#section-2
 */
function documentOf(options: ResolvedAuthOptions): object {
  const { resourceUri, authorizationServers, scopesSupported, resourceName, resourceDocumentation } = options;
  return {
    resource: resourceUri,
    authorization_servers: authorizationServers,
    ...(scopesSupported.length > 0 && { scopes_supported: scopesSupported }),
    bearer_methods_supported: ['header'],
    resource_name: resourceName,
    resource_documentation: resourceDocumentation,
  };
}

/**
 * Returns the path of a request. Clients that have the URL of the endpoint with a trailing slash request the document
 * with one.
 */
function pathOf({ url }: IncomingMessage): string {
  return url!.split(/[?#]/, 1)[0]!.replace(/\/$/, '');
}
