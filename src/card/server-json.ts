import type { Icon } from '@modelcontextprotocol/server';
import type { INestApplicationContext } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { list, McpOptionError, type OptionTable, resolveGroup, text } from '../core/common/options.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { shown } from '../core/protocol/errors.js';
import { hostsIn, type McpEndpointHost } from '../core/plugins/mcp-plugin.js';
import {
  cardSourceOf,
  givenOf,
  identityOf,
  isLoopback,
  RANGE,
  remoteOf,
  type ServerIdentity,
  urlOf,
} from './server-card.js';
import { CARD_NAMES, type McpServerCardOptions, resolveCardOptions } from './server-card.options.js';

/** A package that runs the server on the machine of a user, in `server.json`. @internal */
export interface McpServerPackage {
  /** Where the package is: `npm`, `pypi`, `oci`, `nuget`, `mcpb`. */
  registryType: string;
  /** Its name there, or its URL. */
  identifier: string;
  /** One version, no range. @default `serverInfo.version`; of `oci` and `mcpb`, whose identifiers say it, none */
  version?: string;
  /** How a client speaks with it. @default `{ type: 'stdio' }` */
  transport?: { type: 'stdio' } | { type: 'streamable-http' | 'sse'; url: string };
  /** Other fields of a package, such as `runtimeHint` and `environmentVariables`, are taken as they are. */
  [field: string]: unknown;
}

/** What `server.json` has beside the options of an endpoint. @publicApi */
export interface McpServerJsonOptions extends McpServerCardOptions {
  /** The option `name` of the endpoint. @default the only one, or the one without a name */
  endpoint?: string;
  /** The packages of the server. @default none: the server is reached by its URL alone */
  packages?: readonly McpServerPackage[];
}

const SCHEMA = 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json';

/** The registry takes icons of these types. */
const ICON_TYPES: readonly unknown[] = [
  'image/png',
  'image/jpeg',
  'image/jpg',
  'image/svg+xml',
  'image/webp',
  undefined,
];
const MAX_ICON_URL = 255;

const JSON_TABLE = {
  endpoint: text(undefined),
  packages: list<readonly McpServerPackage[], readonly McpServerPackage[]>(
    [],
    isPackage,
    'an array of { registryType, identifier }, each with one version and a transport, if any',
  ),
} satisfies OptionTable<Omit<McpServerJsonOptions, keyof McpServerCardOptions>>;

/**
 * Makes the `server.json` with which a server is published in the MCP registry, from the options of an endpoint: `serverInfo`,
 * `serverCard` and `auth`, and what is given here.
 *
 * ```ts
 * const app = await NestFactory.createApplicationContext(AppModule, { logger: false });
 * const json = mcpServerJson(app, { packages: [{ registryType: 'npm', identifier: '@example/orders' }] });
 * writeFileSync('server.json', JSON.stringify(json, null, 2));
 * await app.close();
 * ```
 *
 * @param app the app, which need not listen
 * @returns the document; nothing is sent
 * @throws McpOptionError for what the registry would refuse: a name that is no reversed domain and name, a description that is missing or
 *   longer than 100 characters, a range of versions, neither a public URL nor a package
 * @see https://modelcontextprotocol.io/registry/quickstart
 * @publicApi
 */
export function mcpServerJson(
  app: INestApplicationContext,
  options: McpServerJsonOptions = {},
): Record<string, unknown> {
  const isOfCard = ([name]: [string, unknown]): boolean => CARD_NAMES.includes(name);
  const given = Object.entries(options);
  const { endpoint, packages } = resolveGroup(
    JSON_TABLE,
    Object.fromEntries(given.filter((entry) => !isOfCard(entry))),
  );
  const source = cardSourceOf(hostOf(app, endpoint));
  const own = resolveCardOptions(Object.fromEntries(given.filter(isOfCard)), 'serverCard');
  const merged = { ...source, serverCard: { ...givenOf(source.serverCard), ...own } };
  const identity = identityOf(merged);
  const url = urlOf(merged);
  // The registry takes no server that others cannot reach.
  const remotes = url && !isLoopback(url.hostname) ? [remoteOf(url)] : [];
  if (remotes.length + packages.length === 0) {
    const reason = 'needs "url", at which others reach the server, or "packages", with which they run it';
    throw new McpOptionError(
      'url',
      `server.json ${reason}. Give at least one of the two; a URL of this machine does not count.`,
    );
  }
  return {
    $schema: SCHEMA,
    ...withIcons(identity),
    ...(packages.length > 0 && { packages: packages.map((each) => packageOf(each, identity)) }),
    ...(remotes.length > 0 && { remotes }),
  };
}

/** Finds the endpoint. @throws McpOptionError */
function hostOf(app: INestApplicationContext, endpoint: string | undefined): McpEndpointHost {
  const found = hostsIn(app.get(ModulesContainer));
  const named = found.find(({ name }) => (found.length === 1 && endpoint === undefined) || name === endpoint);
  if (named) return named;
  const names = found.map(({ name }) => shown(name ?? '(without a name)')).join(', ');
  const what = endpoint === undefined ? 'several endpoints, all with names' : `no endpoint ${shown(endpoint)}`;
  const text =
    found.length === 0
      ? 'The app has no McpStreamableModule.'
      : `The app has ${what}. Give "endpoint", one of: ${names}.`;
  throw new McpOptionError('endpoint', text);
}

/** Returns the identity with the icons that the registry takes: those at a URL of https. */
function withIcons({ icons = [], ...identity }: ServerIdentity): ServerIdentity {
  const accepted = icons.filter(isOfRegistry);
  return { ...identity, ...(accepted.length > 0 && { icons: accepted }) };
}

function isOfRegistry({ src, mimeType }: Icon): boolean {
  return src.startsWith('https://') && src.length <= MAX_ICON_URL && ICON_TYPES.includes(mimeType);
}

/** The identifiers of these say the version. */
const VERSIONED: readonly string[] = ['oci', 'mcpb'];

function packageOf(given: McpServerPackage, { version }: ServerIdentity): object {
  const known = VERSIONED.includes(given.registryType) ? {} : { version };
  return { ...known, ...given, transport: given.transport ?? { type: 'stdio' } };
}

function isPackage(given: unknown): boolean {
  if (!isObject(given)) return false;
  const { registryType, identifier, version = '1.0.0', transport = { type: 'stdio' } } = given;
  const texts = [registryType, identifier, version].every((each) => typeof each === 'string' && each !== '');
  if (!texts || version === 'latest' || RANGE.test(version as string) || !isObject(transport)) return false;
  const isRemote = transport['type'] === 'streamable-http' || transport['type'] === 'sse';
  return transport['type'] === 'stdio' || (isRemote && typeof transport['url'] === 'string');
}
