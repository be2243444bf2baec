import type { Icon, Implementation } from '@modelcontextprotocol/server';
import { MCP_OPTIONS, McpOptionError } from '../core/common/options.js';
import type { McpEndpointHost } from '../core/plugins/mcp-plugin.js';
import { shown } from '../core/protocol/errors.js';
import type { Offer } from '../core/plugins/offer.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../core/protocol/revisions.js';
import type { McpServerCardOptions, McpServerRepository } from './server-card.options.js';

/** What a card says of a server, and `server.json` too. */
export interface ServerIdentity {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly title?: string;
  readonly websiteUrl?: string;
  readonly repository?: McpServerRepository;
  readonly icons?: readonly Icon[];
}

/** A card of a server. @see https://github.com/modelcontextprotocol/experimental-ext-server-card */
interface ServerCard extends ServerIdentity {
  readonly $schema: string;
  readonly remotes: readonly object[];
}

/** What of the options of an endpoint is in its card. */
export interface CardSource {
  readonly serverInfo: Implementation;
  readonly serverCard?: boolean | McpServerCardOptions;
  readonly auth?: { readonly resourceUri: string } | undefined;
  readonly eras: string;
}

export function cardSourceOf(endpoint: McpEndpointHost): CardSource {
  return endpoint.get<CardSource>(MCP_OPTIONS);
}

export const CARD_TYPE = 'application/mcp-server-card+json';
const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json';

/** A namespace, which is a domain reversed, and a name. */
const NAME = /^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/;
const MAX_NAME = 200;
const MAX_TEXT = 100;
const MAX_VERSION = 255;
/** Matches `^1.2`, `>=1`, `1.x`, `1.*` and the like. */
export const RANGE = /^[\^~<>=]|(?:^|\.)[xX*](?:\.|$)|\s|\|\|/;

/** Makes the card of an endpoint. @throws McpOptionError for what it lacks */
export function serverCardOf(source: CardSource, { serves }: Pick<Offer, 'serves'>): ServerCard {
  const url = urlOf(source);
  if (!url) throw lacks('url', 'the URL at which clients reach the endpoint, such as "https://api.example.com/mcp"');
  // A server of the app decides itself which revisions it supports.
  const revisions = serves === 'handlers' && { supportedProtocolVersions: revisionsOf(source) };
  return { $schema: SCHEMA, ...identityOf(source), remotes: [{ ...remoteOf(url), ...revisions }] };
}

/** Returns the URL at which a card is. */
export function cardUrlOf(source: CardSource): URL {
  const url = urlOf(source)!;
  return new URL(`${url.pathname.replace(/\/$/, '')}/server-card`, url);
}

/**
 * Returns the entry of a card in an AI Catalog.
 *
 * @see https://github.com/modelcontextprotocol/experimental-ext-server-card/blob/main/docs/discovery.md
 */
export function catalogEntryOf(source: CardSource): { identifier: string; type: string; url: string } {
  const [namespace = '', name = ''] = identityOf(source).name.split('/');
  const publisher = namespace.split('.').toReversed().join('.');
  return { identifier: `urn:air:${publisher}:mcp:${name}`, type: CARD_TYPE, url: cardUrlOf(source).href };
}

/** Returns what is public of a server. @throws McpOptionError for what it lacks */
export function identityOf({ serverInfo, serverCard }: Pick<CardSource, 'serverInfo' | 'serverCard'>): ServerIdentity {
  const { version, title, websiteUrl, icons } = serverInfo;
  const { name = serverInfo.name, description = serverInfo.description, repository } = givenOf(serverCard);
  if (!NAME.test(name) || name.length > MAX_NAME) {
    throw lacks(
      'name',
      `a domain of yours, reversed, and a name, such as "com.example/orders"; ${shown(name)} does not have this form`,
    );
  }
  if (description === undefined || !isText(description)) {
    const got =
      description === undefined ? 'there is none' : `the one in "serverInfo" or "serverCard" has ${description.length}`;
    throw lacks('description', `what the server can do, in 1 to ${MAX_TEXT} characters; ${got}`);
  }
  if (version.length > MAX_VERSION || RANGE.test(version)) {
    const text = `The option "serverInfo.version" is ${shown(version)}, which a card cannot have. Give a single version, such as "1.0.0".`;
    throw new McpOptionError('serverInfo.version', text);
  }
  if (title !== undefined && !isText(title)) {
    const text = `The option "serverInfo.title" must have 1 to ${MAX_TEXT} characters in a card; it has ${title.length}.`;
    throw new McpOptionError('serverInfo.title', text);
  }
  return {
    name,
    version,
    description,
    ...(title !== undefined && { title }),
    ...(websiteUrl !== undefined && { websiteUrl }),
    ...(repository && { repository }),
    ...(icons && icons.length > 0 && { icons }),
  };
}

/** Returns where clients reach an endpoint; `undefined` if no option says so. @throws McpOptionError */
export function urlOf({ serverCard, auth }: Pick<CardSource, 'serverCard' | 'auth'>): URL | undefined {
  const given = givenOf(serverCard).url ?? auth?.resourceUri;
  if (given === undefined) return undefined;
  const url = URL.canParse(given) ? new URL(given) : undefined;
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopback(url.hostname));
  if (url && isSafe && url.username === '' && url.password === '' && url.hash === '') return url;
  const wanted = 'an absolute URL of https, or of http on this machine, without credentials and "#"';
  throw new McpOptionError('serverCard.url', `The option "serverCard.url" must be ${wanted}; got ${shown(given)}.`);
}

/** Returns the options of a card; none, if it is only switched on or off. */
export function givenOf(serverCard: CardSource['serverCard']): McpServerCardOptions {
  return typeof serverCard === 'object' ? serverCard : {};
}

export function remoteOf(url: URL): { type: string; url: string } {
  return { type: 'streamable-http', url: url.href };
}

export function isLoopback(hostname: string): boolean {
  return hostname === 'localhost' || hostname.endsWith('.localhost') || /^(?:127\.[\d.]+|\[::1\])$/.test(hostname);
}

function revisionsOf({ eras }: CardSource): readonly string[] {
  return [...(eras === 'legacy' ? [] : MODERN_REVISIONS), ...(eras === 'modern' ? [] : LEGACY_REVISIONS)];
}

function isText(text: string): boolean {
  return text.length > 0 && text.length <= MAX_TEXT;
}

function lacks(field: string, wanted: string): McpOptionError {
  const option = `serverCard.${field}`;
  return new McpOptionError(option, `The option "${option}" is needed: ${wanted}.`);
}
