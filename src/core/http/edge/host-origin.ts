import { isIPv4, isIPv6 } from 'node:net';
import { McpError, shown } from '../../protocol/errors.js';
import { type Authority, isLoopbackAddress, isLoopbackName, parseAuthority } from '../../protocol/local-caller.js';
import { McpOptionError, option, type OptionTable, required, texts } from '../../common/options.js';

/*
 * Protects against DNS rebinding: a page of evil.com, whose name resolves to 127.0.0.1 or to a private address, makes
 * the browser send requests that it considers same-origin. The browser cannot hide the name: it is in `Host`, and in
 * `Origin` when there is one.
 *
 * A server on loopback is meant for this machine only, so there only loopback names pass by default, also when the
 * server listens on all addresses: what counts is the address that this connection arrived on. A reverse proxy on the
 * same machine arrives on loopback too, and its public name has to be listed.
 *
 * On a network address with nothing listed, any name may be one that an attacker has pointed here. Clients that are not
 * browsers send no Origin, and pass. A browser's own Origin proves nothing there, unless the Host is no name at all: an
 * address cannot be pointed elsewhere.
 *
 * Spec: 2025-11-25, basic/transports, "Security Warning". Row E1.
 */

/** The check reads these parts of a request. @internal */
export interface RequestFacts {
  /** The `Host` header, or `:authority`. */
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** The address that the connection arrived on; `undefined` for a Unix socket, where the same rules hold as on a network address. */
  readonly localAddress: string | undefined;
}

/** Options of {@link compileHostRules}. @internal */
export interface HostOriginOptions {
  /**
   * Lists the values that the header `Host` may have, with or without a port. If an entry has no port, every port is
   * allowed. Upper and lower case are the same.
   *
   * With an empty list, the address at which a request arrives decides. At a loopback address, the `Host` must be a
   * loopback name; if a reverse proxy on the same machine forwards the public host name, list that name. At any other
   * address, every `Host` is allowed, and a warning is logged once. There, a request of a browser page is refused if
   * the `Host` is a domain name, unless `allowedOrigins` lists the page.
   *
   * @default []
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning
   */
  readonly allowedHosts?: readonly string[];
  /**
   * Lists the origins from which browsers may call, such as `https://app.example.com`, in addition to the endpoint's
   * own origin. The entry `null` allows sandboxed frames and local files. Every website can open such a frame, so
   * `null` lets every website call.
   *
   * @default []
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#security-warning
   */
  readonly allowedOrigins?: readonly string[];
}

export const HOST_ORIGIN_TABLE = {
  allowedHosts: namesThat(hostOf),
  allowedOrigins: namesThat(originOf),
} satisfies OptionTable<HostOriginOptions>;

/** Returns an option type for names. @param parse throws McpOptionError for an entry that cannot match any request */
function namesThat(parse: (entry: unknown) => unknown) {
  return option<readonly string[], readonly string[]>([], (given, name) => {
    for (const entry of texts(required)(given, name)) parse(entry);
    return given;
  });
}

/** Holds the allow-lists, ready for comparison. @internal */
export interface HostOriginRules {
  readonly hosts: readonly Authority[];
  readonly origins: ReadonlySet<string>;
}

interface Origin extends Authority {
  readonly scheme: string;
}

/** A DNS name has at most so many characters (RFC 1035 §2.3.4). */
const LONGEST_HOST = 253;
const ORIGIN = /^([a-z][a-z0-9+.-]*):\/\/([^/]+)$/;
const DEFAULT_PORTS: Readonly<Record<string, string | undefined>> = {
  __proto__: null,
  http: '80',
  https: '443',
} as never;

/** Compiles the allow-lists. @throws McpOptionError for an entry that cannot match any request */
export function compileHostRules({ allowedHosts = [], allowedOrigins = [] }: HostOriginOptions): HostOriginRules {
  return { hosts: allowedHosts.map(hostOf), origins: new Set(allowedOrigins.map(originOf)) };
}

function hostOf(entry: unknown): Authority {
  const text = textOf(entry);
  const host = parseAuthority(isIPv6(text) ? `[${text}]` : text);
  if (host) return host;
  const reason = `"allowedHosts" has the entry ${shown(entry)}, which is not a host. Write "mcp.example.com", "mcp.example.com:8443" or "[::1]"; there are no wildcards.`;
  throw new McpOptionError('allowedHosts', reason);
}

function originOf(entry: unknown): string {
  if (entry === 'null') return entry;
  const origin = parseOrigin(textOf(entry).replace(/\/$/, ''));
  if (origin) return serialised(origin);
  const reason = `"allowedOrigins" has the entry ${shown(entry)}, which is not an origin. Write "https://app.example.com", with the scheme and without a path; there are no wildcards.`;
  throw new McpOptionError('allowedOrigins', reason);
}

/** Returns an entry as text: options may come from configuration files, unchecked by the compiler. */
function textOf(entry: unknown): string {
  return typeof entry === 'string' ? entry : '';
}

/**
 * Checks row E1. It is pure.
 *
 * A Host is refused when it is missing or is no host at all; on loopback also when it is neither a loopback name nor
 * listed, elsewhere when there is a list and it is not on it. An Origin passes when it is absent, listed, or names the
 * same host and port as the Host; on loopback also when it is a loopback name of http or https, on any port. `null`
 * passes only when listed. The Origin that names an unlisted Host passes only if that Host is no name that DNS resolves.
 *
 * @param onUnlisted called for each request that did not arrive on loopback while no host is listed
 * @returns why the request is refused, or `undefined`
 * @internal
 */
export function checkHostAndOrigin(
  facts: RequestFacts,
  rules: HostOriginRules,
  onUnlisted: (facts: RequestFacts) => void,
): McpError | undefined {
  const loopback = isLoopbackAddress(facts.localAddress);
  const host = facts.host === undefined ? undefined : parseAuthority(facts.host);
  if (!host || !hostAllowed(host, loopback, rules)) {
    // A value that is not a host name cannot be listed.
    const name = host && host.name.length <= LONGEST_HOST ? host.name : undefined;
    const option = name === undefined ? undefined : 'allowedHosts';
    const advice =
      name === undefined
        ? 'Send a host name of this server (see "allowedHosts").'
        : `If clients reach this server by that name, as through a tunnel, a proxy or a container, add "${name}" to the option "allowedHosts".`;
    return new McpError('FORBIDDEN_HOST', `The Host ${shown(facts.host)} is not allowed here. ${advice}`, { option });
  }
  const unlisted = !loopback && rules.hosts.length === 0;
  if (facts.origin !== undefined && !originAllowed(facts.origin, host, loopback, rules)) {
    // A value that is not an origin cannot be listed.
    const option = facts.origin === 'null' || parseOrigin(facts.origin) ? 'allowedOrigins' : undefined;
    const text = `The Origin ${shown(facts.origin)} is not allowed here. If pages of that origin may call this server, add it to the option "allowedOrigins" exactly as shown.`;
    return new McpError('FORBIDDEN_ORIGIN', text, { option });
  }
  if (unlisted && facts.origin !== undefined && !isAddress(host.name) && !isListed(facts.origin, rules)) {
    const text = `The Host ${shown(facts.host)} is not allowed for web pages, because this server lists no host names: any name may have been pointed to it. Add "${host.name}" to the option "allowedHosts".`;
    return new McpError('FORBIDDEN_HOST', text, { option: 'allowedHosts' });
  }
  if (unlisted) onUnlisted(facts);
  return undefined;
}

function hostAllowed(host: Authority, loopback: boolean, rules: HostOriginRules): boolean {
  if (loopback && isLoopbackName(host.name)) return true;
  if (rules.hosts.some((listed) => listed.name === host.name && samePort(listed.port, host.port))) return true;
  return !loopback && rules.hosts.length === 0;
}

/**
 * Compares ports. Browsers omit the default port from the Host; a proxy may have terminated TLS, so either default is
 * possible.
 */
function samePort(listed: string | undefined, actual: string | undefined): boolean {
  return listed === undefined || listed === actual || (actual === undefined && (listed === '443' || listed === '80'));
}

function originAllowed(text: string, host: Authority, loopback: boolean, rules: HostOriginRules): boolean {
  if (isListed(text, rules)) return true;
  const origin = parseOrigin(text);
  if (!origin) return false;
  if (loopback && origin.scheme in DEFAULT_PORTS && isLoopbackName(origin.name)) return true;
  return isOwn(origin, host);
}

function isListed(text: string, { origins }: HostOriginRules): boolean {
  const origin = text === 'null' ? undefined : parseOrigin(text);
  return origins.has(origin ? serialised(origin) : text);
}

/**
 * Returns whether an origin is the endpoint's own. The scheme is not compared: behind a proxy that terminates TLS the
 * server does not know its own.
 */
function isOwn(origin: Origin, host: Authority): boolean {
  const own = DEFAULT_PORTS[origin.scheme];
  return own !== undefined && origin.name === host.name && (origin.port ?? own) === (host.port ?? own);
}

/** Returns whether a page of another origin sent a request, so that CORS decides what the page can read. @internal */
export function isCrossOrigin(origin: string | undefined, host: string | undefined): boolean {
  if (origin === undefined) return false;
  const [page, endpoint] = [parseOrigin(origin), parseAuthority(host ?? '')];
  return !page || !endpoint || !isOwn(page, endpoint);
}

function parseOrigin(text: string): Origin | undefined {
  const match = ORIGIN.exec(text.toLowerCase());
  const authority = match && parseAuthority(match[2]!);
  return authority ? { scheme: match[1]!, ...authority } : undefined;
}

function serialised({ scheme, name, port }: Origin): string {
  return `${scheme}://${name}:${port ?? DEFAULT_PORTS[scheme] ?? ''}`;
}

/** Returns whether a host is an address, so that DNS does not decide where it leads. */
function isAddress(name: string): boolean {
  return name.startsWith('[') || isIPv4(name) || isLoopbackName(name);
}
