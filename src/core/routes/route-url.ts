import { isObject } from '../protocol/json-rpc.js';
import { McpArgumentsError } from '../handlers/handlers.errors.js';
import type { RouteParts } from './route-values.js';
import { namesIn, parsePath, type PathPart, UNNAMED } from './route-paths.js';

/**
 * A longer URL is not made: a client that repeats a long name with many values would make it grow with the square of
 * its message.
 */
const LONGEST_URL = 1_048_576;

/** A path of a route, and what `request.route` of Express says of it. */
export interface DeclaredPath {
  readonly path: string;
  readonly parts: readonly PathPart[];
  readonly route: object;
}

/** Makes the URLs that calls of a tool would have at its route. One object serves all calls. */
export class RouteUrls {
  readonly #paths: readonly DeclaredPath[];

  constructor(paths: readonly string[], verb: string | undefined) {
    const methods = { [verb?.toLowerCase() ?? '_all']: true };
    this.#paths = paths.map((path) => ({ path, parts: parsePath(path), route: { path, methods, stack: [] } }));
  }

  /**
   * Returns the path that a call is served at: of several, the one that has most of its arguments.
   *
   * @param params `undefined` while a list is made
   */
  pathFor(params: unknown): DeclaredPath {
    const [first, ...others] = this.#paths;
    if (others.length === 0 || params === undefined) return first!;
    return others.reduce((best, each) => (fitOf(each, params) > fitOf(best, params) ? each : best), first!);
  }

  /** Returns the URL of a call. @throws McpArgumentsError for arguments that no URL can have */
  urlOf({ params, query }: RouteParts): string {
    const path = filled(this.pathFor(params).parts, params);
    const pairs = new Pairs(path.length);
    if (isObject(query)) for (const [name, value] of Object.entries(query)) pairs.add(encoded(name), value);
    return pairs.text === '' ? path : `${path}?${pairs.text}`;
  }
}

function fitOf({ parts }: DeclaredPath, params: unknown): number {
  const needed = namesIn(parts.filter((part) => typeof part === 'string' || !('optional' in part)));
  if (!needed.every((name) => textOf(params, name) !== undefined)) return -1;
  return namesIn(parts).filter((name) => textOf(params, name) !== undefined).length;
}

function filled(parts: readonly PathPart[], params: unknown): string {
  const texts = parts.map((part) => {
    if (typeof part === 'string') return part.replaceAll(/[^\u0021-\u007E]+/g, encoded);
    if ('optional' in part) {
      const names = namesIn(part.optional);
      const isGiven = names.length > 0 && names.every((name) => textOf(params, name) !== undefined);
      return isGiven ? filled(part.optional, params) : '';
    }
    const text = textOf(params, part.name) ?? '';
    // A guard that parses the URL would resolve these segments, also encoded ones, and see another path.
    if (text.split(part.isWild ? '/' : '\n').some((segment) => segment === '.' || segment === '..')) {
      throw new McpArgumentsError([{ path: part.name, message: 'must not be "." or ".."' }]);
    }
    return part.isWild ? text.split('/').map(encoded).join('/') : encoded(text);
  });
  return texts.join('');
}

/** Returns an argument of the path; of a wildcard without a name also what Nest calls `path`. */
function textOf(params: unknown, name: string): string | undefined {
  const own = (key: string): unknown => (isObject(params) && Object.hasOwn(params, key) ? params[key] : undefined);
  const value = own(name) ?? (name === UNNAMED ? own('path') : undefined);
  // Express takes a wildcard apart.
  if (Array.isArray(value)) return value.join('/');
  // Numbers are texts already; what no URL has is refused after the guards.
  return typeof value === 'string' ? value : undefined;
}

/** Builds the query of a URL, in the form that the parsers of both adapters read; objects as `qs` has them. */
class Pairs {
  text = '';

  constructor(private length: number) {}

  /** @throws McpArgumentsError when the URL gets too long */
  add(key: string, value: unknown): void {
    if (Array.isArray(value)) {
      for (const [index, each] of value.entries()) this.add(isObject(each) ? `${key}[${index}]` : key, each);
    } else if (isObject(value)) {
      for (const [name, each] of Object.entries(value)) this.add(`${key}[${encoded(name)}]`, each);
    } else if (value !== undefined) {
      const pair = `${key}=${typeof value === 'string' ? encoded(value) : ''}`;
      this.length += pair.length + 1;
      if (this.length > LONGEST_URL) {
        const message = `together they make the URL of the route longer than ${LONGEST_URL} characters`;
        throw new McpArgumentsError([{ path: '', message }]);
      }
      this.text += this.text === '' ? pair : `&${pair}`;
    }
  }
}

/** JSON can have half of a surrogate pair, which cannot be encoded. */
const encoded = (text: string): string => encodeURIComponent(text.replaceAll(/\p{Cs}/gu, '\uFFFD'));
