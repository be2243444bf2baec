import 'reflect-metadata';
import { RequestMethod, VersioningType } from '@nestjs/common';
import type { ApplicationConfig, ModulesContainer } from '@nestjs/core';
import type { ProviderWrapper } from '../handlers/invocation/enhancers.js';
import type { Method } from '../handlers/invocation/invocation.js';

/** Nest stores the path and the verb of a route under these keys. */
const ROUTE_PATH = 'path';
const ROUTE_VERB = 'method';
const ROUTE_VERSION = '__version__';
const MODULE_PATH = '__module_path__';

/** Names the app and the module of a route, whose paths stand in front of its own. */
export interface RouteHome {
  readonly config: ApplicationConfig;
  readonly modules: ModulesContainer;
  readonly wrapper: Pick<ProviderWrapper, 'host'>;
}

/** Returns whether a method is a route of a controller. */
export function isRouteMethod(method: unknown): method is Method {
  return typeof method === 'function' && Reflect.hasMetadata(ROUTE_PATH, method);
}

/** Returns the verb of a route; `undefined` for `@All()`. */
export function verbOf(method: object): string | undefined {
  const verb = Reflect.getMetadata(ROUTE_VERB, method) as RequestMethod | undefined;
  return verb === RequestMethod.ALL ? undefined : RequestMethod[verb ?? RequestMethod.GET];
}

/**
 * Returns the paths of a route as the app declares them in its router, such as `/api/v1/orders/:id`: with the global
 * prefix, the version, and the path of `RouterModule`. The rules are those of Nest's `RoutePathFactory`.
 */
export function routePathsOf(host: object, method: object, { config, modules, wrapper }: RouteHome): string[] {
  const prefix = withSlash(config.getGlobalPrefix());
  const { exclude = [] } = config.getGlobalPrefixOptions();
  const verb = Reflect.getMetadata(ROUTE_VERB, method) as RequestMethod;
  const isExcluded = (path: string): boolean =>
    exclude.some(({ requestMethod, pathRegex }) => {
      const isVerb = requestMethod === RequestMethod.ALL || (requestMethod as number) === -1 || requestMethod === verb;
      return isVerb && pathRegex.test(path === '' ? '/' : path);
    });
  const own = [host, method].map((holder) => metadataOf<string | string[]>(ROUTE_PATH, holder));
  const paths = [modulePathOf(wrapper, modules), ...own].reduce<string[]>(
    (before, fragment = '') => before.flatMap((path) => [fragment].flat().map((next) => joined(path, next))),
    [''],
  );
  const all = versionsOf(host, method, config).flatMap((version) =>
    paths.map((path) => `${isExcluded(path) ? '' : withoutSlash(prefix)}${version}${path}`),
  );
  return [...new Set(all.map((path) => withoutSlash(withSlash(path)) || '/'))];
}

/** `VERSION_NEUTRAL` is a symbol. */
type Version = string | symbol | (string | symbol)[];

/** Returns what the versions of a route put into its path: an empty text for each without. */
function versionsOf(host: object, method: object, config: ApplicationConfig): string[] {
  const versioning = config.getVersioning();
  if (versioning?.type !== VersioningType.URI) return [''];
  const [ofMethod, ofHost] = [method, host].map((holder) => metadataOf<Version>(ROUTE_VERSION, holder));
  const version: Version | undefined = ofMethod ?? ofHost ?? versioning.defaultVersion;
  if (version === undefined) return [''];
  const { prefix = 'v' } = versioning;
  return [version].flat().map((each) => (typeof each === 'symbol' ? '' : `/${prefix || ''}${each}`));
}

function modulePathOf({ host }: RouteHome['wrapper'], { applicationId }: ModulesContainer): string | undefined {
  const module = host?.metatype;
  // `RouterModule` stores the path of a module for the app, or for all.
  const [ofApp, ofAll] = [`${MODULE_PATH}${applicationId}`, MODULE_PATH].map(
    (key) => module && metadataOf<string>(key, module),
  );
  return ofApp ?? ofAll;
}

const metadataOf = <T>(key: string, holder: object): T | undefined => Reflect.getMetadata(key, holder) as T | undefined;

const joined = (path: string, next: string): string => (next === '' ? path : withoutSlash(path) + withSlash(next));
const withSlash = (path: string): string => (path === '' || /^\{?\//.test(path) ? path : `/${path}`);
const withoutSlash = (path: string): string => path.replace(/\/$/, '');

/** Returns the names in the paths of a route; and whether each path has them, as `{/:id}` and lists of paths need not. */
export function pathNamesOf(paths: readonly string[]): Map<string, boolean> {
  const all = paths.map(parsePath);
  const names = new Set(all.flatMap((parts) => namesIn(parts)).filter((name) => name !== UNNAMED));
  const isNeeded = (name: string): boolean => all.every((parts) => namesIn(withoutOptional(parts)).includes(name));
  return new Map(Array.from(names, (name) => [name, isNeeded(name)]));
}

/** Returns the names in the paths of a route that take several segments. */
export function wildNamesOf(paths: readonly string[]): Set<string> {
  const wild = paths.flatMap((path) => wildIn(parsePath(path)));
  // Nest gives a wildcard without a name this one on Express.
  return new Set(wild.flatMap((name) => (name === UNNAMED ? [name, 'path'] : [name])));
}

function wildIn(parts: readonly PathPart[]): string[] {
  return parts.flatMap((part) => {
    if (typeof part === 'string') return [];
    if ('optional' in part) return wildIn(part.optional);
    return part.isWild ? [part.name] : [];
  });
}

/** A part of a declared path: a text, a parameter, or a group that the path can do without. */
export type PathPart = string | PathParam | { readonly optional: readonly PathPart[] };

export interface PathParam {
  readonly name: string;
  /** Whether it takes several segments: `*path`. */
  readonly isWild: boolean;
}

/** The name of a wildcard without a name, as in Fastify. */
export const UNNAMED = '*';

const PARTS = /\\(.)|::|:([\w$]+)(?:\((?:[^()]|\([^()]*\))*\))?(\?)?|\*([\w$]*)|\(\.\*\)|[{}]|./gsu;

/** Parses a path in the syntax of Express 5 (`{/:id}`, `*path`), of Fastify (`:id?`, `:id(\\d+)`, `*`), or of older Express (`(.*)`). */
export function parsePath(path: string): PathPart[] {
  const open: PathPart[][] = [[]];
  const add = (part: PathPart): void => {
    const parts = open.at(-1)!;
    const last = parts.at(-1);
    if (typeof part === 'string' && typeof last === 'string') parts[parts.length - 1] = last + part;
    else parts.push(part);
  };
  for (const [token, escaped, name, isOptional, wild] of path.matchAll(PARTS)) {
    if (escaped !== undefined) add(escaped);
    else if (name !== undefined) {
      const param = { name, isWild: false };
      add(isOptional ? { optional: withSlashBefore(open.at(-1)!, param) } : param);
    } else if (wild) add({ name: wild, isWild: true });
    else if (token === '*' || token === '(.*)') add({ optional: [{ name: UNNAMED, isWild: true }] });
    else if (token === '{') open.push([]);
    else if (token === '}' && open.length > 1) {
      const optional = open.pop()!;
      add({ optional });
    } else add(token === '::' ? ':' : token);
  }
  return open.flat();
}

/** Takes the slash before an optional parameter of Fastify, which belongs to it. */
function withSlashBefore(parts: PathPart[], param: PathParam): PathPart[] {
  const last = parts.at(-1);
  if (typeof last !== 'string' || !last.endsWith('/')) return [param];
  parts[parts.length - 1] = last.slice(0, -1);
  return ['/', param];
}

export function namesIn(parts: readonly PathPart[]): string[] {
  return parts.flatMap((part) => {
    if (typeof part === 'string') return [];
    return 'optional' in part ? namesIn(part.optional) : [part.name];
  });
}

function withoutOptional(parts: readonly PathPart[]): PathPart[] {
  return parts.filter((part) => typeof part === 'string' || !('optional' in part));
}
