import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Inject, Injectable, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { ENDPOINT_NAME, type EndpointName } from '../core/calls/endpoint-name.js';
import { MCP_OPTIONS, McpOptionError } from '../core/common/options.js';
import { HttpEdge } from '../core/http/edge/http-edge.js';
import { Offer } from '../core/plugins/offer.js';
import { CARD_TYPE, type CardSource, cardUrlOf, catalogEntryOf, serverCardOf } from './server-card.js';

const CATALOG_PATH = '/.well-known/ai-catalog.json';
const CATALOG_TYPE = 'application/ai-catalog+json';

const METHODS = 'GET, HEAD, OPTIONS';
/** Pages of any origin may read what is public. */
const PUBLIC = {
  'Access-Control-Allow-Origin': '*',
  'Access-Control-Allow-Methods': METHODS,
  'Access-Control-Allow-Headers': 'Content-Type, If-None-Match',
  'Access-Control-Expose-Headers': 'ETag',
} as const;

/** A document that is served, and its tag. */
interface Served {
  readonly type: string;
  readonly body: string;
  readonly etag: string;
}

/**
 * # The server card (SEP-2127)
 *
 * | path | is |
 * |---|---|
 * | `<endpoint>/server-card` | the card, where the app has the endpoint, and at the path of its public URL |
 * | `/.well-known/ai-catalog.json` | the entries of all cards of the app, unless it has a route there |
 *
 * Both are answered in front of the app's router, as the metadata of `auth`: a global guard would ask for a login that a client has not
 * learned of yet.
 */
@Injectable()
export class CardRoutes implements OnModuleInit {
  #card: Served | undefined;
  #catalog: Served | undefined;

  constructor(
    @Inject(MCP_OPTIONS) readonly source: CardSource,
    @Inject(ENDPOINT_NAME) readonly endpointName: EndpointName,
    @Inject(Offer) private readonly offer: Offer,
    @Inject(HttpEdge) private readonly edge: HttpEdge,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(ModulesContainer) private readonly modules: ModulesContainer,
  ) {}

  /** Serves the card. @throws McpOptionError for what it lacks, and when a route of the app, or another card, has its path or name */
  onModuleInit(): void {
    const { source, edge } = this;
    if (!source.serverCard) return;
    this.#card = servedAs(CARD_TYPE, serverCardOf(source, this.offer));
    const { httpAdapter } = this.adapterHost;
    // An app without HTTP, as behind serveMcpStdio(), serves no card.
    if (!httpAdapter) return;
    const own = cardUrlOf(source).pathname;
    if (edge.hasRoute(httpAdapter, own)) {
      const text = `A route of the app has the path ${own}, at which the option "serverCard" serves the card of the endpoint. Remove one of the two.`;
      throw new McpOptionError('serverCard', text);
    }
    const all = this.#all();
    const entry = catalogEntryOf(source);
    // Not by `this`: Nest's option `instrument` may put a proxy around each instance.
    const isThis = ({ endpointName }: CardRoutes): boolean => endpointName === this.endpointName;
    const others = all.filter((each) => !isThis(each)).map((each) => catalogEntryOf(each.source));
    if (others.some(({ identifier, url }) => identifier === entry.identifier || url === entry.url)) {
      const text = `Two MCP endpoints of this app have the "serverCard" ${entry.identifier}, or one at ${entry.url}. Give each a name and a URL of its own.`;
      throw new McpOptionError('serverCard', text);
    }
    // The first one serves the catalog of all.
    if (isThis(all[0]!) && !edge.hasRoute(httpAdapter, CATALOG_PATH)) {
      const entries = all.map((each) => catalogEntryOf(each.source));
      this.#catalog = servedAs(CATALOG_TYPE, { specVersion: '1.0', entries });
    }
    edge.answerFirst(httpAdapter, (request, response) => {
      const served = this.#servedAt(request, own);
      if (served) answer(served, request, response);
      return served !== undefined;
    });
  }

  #servedAt({ url = '' }: IncomingMessage, own: string): Served | undefined {
    const path = url.split(/[?#]/, 1)[0]!;
    if (path === CATALOG_PATH) return this.#catalog;
    if (!path.endsWith('/server-card')) return undefined;
    // The routes of the endpoint are declared late.
    const isHere =
      path === own || this.edge.paths().some((endpoint) => path === `${endpoint.replace(/\/$/, '')}/server-card`);
    return isHere ? this.#card : undefined;
  }

  /** Returns those of all endpoints of the app that have a card. */
  #all(): CardRoutes[] {
    return [...this.modules.values()]
      .map((module): unknown => module.providers.get(CardRoutes)?.instance)
      .filter((other): other is CardRoutes => other instanceof CardRoutes && Boolean(other.source.serverCard));
  }
}

function servedAs(type: string, document: object): Served {
  const body = JSON.stringify(document);
  return { type, body, etag: `"${createHash('sha256').update(body).digest('base64url')}"` };
}

function answer({ type, body, etag }: Served, { method, headers }: IncomingMessage, response: ServerResponse): void {
  const cached = { ...PUBLIC, ETag: etag, 'Cache-Control': 'public, max-age=3600' };
  if (method === 'OPTIONS') {
    response.writeHead(204, { ...PUBLIC, 'Access-Control-Max-Age': '86400' }).end();
  } else if (method !== 'GET' && method !== 'HEAD') {
    response.writeHead(405, { ...PUBLIC, Allow: METHODS, 'Content-Length': 0 }).end();
  } else if (isKnown(headers['if-none-match'], etag)) {
    response.writeHead(304, cached).end();
  } else {
    const head = { ...cached, 'Content-Type': type, 'Content-Length': Buffer.byteLength(body) };
    response.writeHead(200, head).end(method === 'GET' ? body : undefined);
  }
}

/** @see https://www.rfc-editor.org/rfc/rfc9110#section-13.1.2 */
function isKnown(header: string | undefined, etag: string): boolean {
  const tags = header?.split(',').map((tag) => tag.trim().replace(/^W\//, ''));
  return tags !== undefined && (tags.includes(etag) || tags.includes('*'));
}
