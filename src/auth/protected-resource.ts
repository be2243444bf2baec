import type { IncomingMessage, ServerResponse } from 'node:http';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { McpOptionError } from '../core/common/options.js';
import { HttpEdge } from '../core/http/edge/http-edge.js';
import { RESOURCE_SERVER } from './bearer.guard.js';
import { type ResourceServer, WELL_KNOWN } from './resource-server.js';

const METHODS = 'GET, HEAD, OPTIONS';
/** The document is public, also for pages of any origin. */
const PUBLIC = { 'Access-Control-Allow-Origin': '*' } as const;

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
@Injectable()
export class ProtectedResource implements OnModuleInit {
  #body = '';

  constructor(
    @Inject(RESOURCE_SERVER) readonly server: ResourceServer | null,
    @Inject(HttpEdge) private readonly edge: HttpEdge,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {}

  /** Serves the document. @throws McpOptionError when a route of the app has the path */
  onModuleInit(): void {
    const { server, edge } = this;
    if (!server) return;
    server.prepare();
    const { httpAdapter } = this.adapterHost;
    // An app without HTTP, as behind serveMcpStdio(), serves no document.
    if (!httpAdapter) return;
    const own = new URL(server.metadataUrl).pathname;
    for (const other of this.#others()) {
      if (new URL(other.server!.metadataUrl).pathname !== own) continue;
      const text = `Two MCP endpoints of this app have the "auth.resource" ${server.options.resourceUri}, or one with the same path. Give each the URL at which clients reach it.`;
      throw new McpOptionError('auth.resource', text);
    }
    if (edge.hasRoute(httpAdapter, own)) {
      const text = `A route of the app has the path ${own}, at which the option "auth" serves the metadata of the endpoint. Remove the route.`;
      throw new McpOptionError('auth.resource', text);
    }
    this.#body = JSON.stringify(documentOf(server));
    edge.answerFirst(httpAdapter, (request, response) => {
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
    const { pathname } = new URL(this.server!.metadataUrl);
    const others = this.#others();
    const taken = others.map(({ server }) => new URL(server!.metadataUrl).pathname);
    const local = this.edge.paths().map((path) => WELL_KNOWN + path);
    const more = [...local, ...(others.length === 0 ? [WELL_KNOWN] : [])];
    // An app that is a resource itself serves its own document there.
    const isFree = (path: string): boolean =>
      !taken.includes(path) && !this.edge.hasRoute(this.adapterHost.httpAdapter, path);
    return new Set([pathname, ...more.filter(isFree)]);
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

  /** Returns the documents of the other endpoints of the app that have the option. */
  #others(): ProtectedResource[] {
    return (
      [...this.modules.values()]
        .map((module): unknown => module.providers.get(ProtectedResource)?.instance)
        .filter((other): other is ProtectedResource => other instanceof ProtectedResource)
        // Not by `this`: Nest's option `instrument` may put a proxy around each instance.
        .filter(({ server }) => server !== this.server && server !== null)
    );
  }
}

/**
 * Returns the document.
 *
 * @see https://www.rfc-editor.org/rfc/rfc9728#section-2
 */
function documentOf({ options }: ResourceServer): object {
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
