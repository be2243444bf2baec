import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { HttpAdapterHost, ModuleRef } from '@nestjs/core';
import { McpOptionError } from '../core/common/options.js';
import { HttpEdge } from '../core/http/edge/http-edge.js';
import { type McpEndpointHost, McpPlugin } from '../core/plugins/mcp-plugin.js';
import { CARD_TYPE, cardSourceOf, cardUrlOf, catalogEntryOf, serverCardOf } from './server-card.js';

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
export class CardPlugin extends McpPlugin {
  /** It acts on no call. */
  readonly ring = 'observe';

  /** Serves the card. @throws McpOptionError for what it lacks, and when a route of the app, or another card, has its path or name */
  attach(endpoint: McpEndpointHost): undefined {
    const source = cardSourceOf(endpoint);
    const card = servedAs(CARD_TYPE, serverCardOf(source, endpoint.offer));
    const { httpAdapter } = endpoint.get(ModuleRef).get(HttpAdapterHost, { strict: false });
    // An app without HTTP, as behind serveMcpStdio(), serves no card.
    if (!httpAdapter) return;
    const edge = endpoint.get(HttpEdge);
    const own = cardUrlOf(source).pathname;
    if (edge.hasRoute(httpAdapter, own)) {
      const text = `A route of the app has the path ${own}, at which the option "serverCard" serves the card of the endpoint. Remove one of the two.`;
      throw new McpOptionError('serverCard', text);
    }
    const all = endpoint.all().filter((each) => Boolean(cardSourceOf(each).serverCard));
    const entry = catalogEntryOf(source);
    const others = all
      .filter(({ index }) => index !== endpoint.index)
      .map((each) => catalogEntryOf(cardSourceOf(each)));
    if (others.some(({ identifier, url }) => identifier === entry.identifier || url === entry.url)) {
      const text = `Two MCP endpoints of this app have the "serverCard" ${entry.identifier}, or one at ${entry.url}. Give each a name and a URL of its own.`;
      throw new McpOptionError('serverCard', text);
    }
    // The first one serves the catalog of all.
    const isFirst = all[0]!.index === endpoint.index && !edge.hasRoute(httpAdapter, CATALOG_PATH);
    const entries = all.map((each) => catalogEntryOf(cardSourceOf(each)));
    const catalog = isFirst ? servedAs(CATALOG_TYPE, { specVersion: '1.0', entries }) : undefined;
    edge.answerFirst(httpAdapter, (request, response) => {
      const path = request.url!.split(/[?#]/, 1)[0]!;
      const served = path === CATALOG_PATH ? catalog : isPathOfCard(path, own, edge.paths()) ? card : undefined;
      if (served) answer(served, request, response);
      return served !== undefined;
    });
  }
}

/** @param paths of the endpoint in the app: they are declared late */
function isPathOfCard(path: string, own: string, paths: readonly string[]): boolean {
  if (!path.endsWith('/server-card')) return false;
  return path === own || paths.some((endpoint) => path === `${endpoint.replace(/\/$/, '')}/server-card`);
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
