import { isIPv6 } from 'node:net';

/**
 * Matches the headers that proxies, balancers, CDNs and tunnels add. It is a pattern, since each has its own, and a
 * proxy may send only one of them: `forwarded`, `x-real-ip`, `cf-ray`, `x-amzn-trace-id`, `cdn-loop` (RFC 8586)…
 */
const PROXY_HEADER = new RegExp(
  [
    'forward|prox|client-?ip|real-?ip|^via$|^front-end-https$',
    '^(?:akamai|cdn|cf|cloudfront|fastly|fly|tailscale|true)-|^rndr-id$',
    '^x-(?:akamai|amzn?|appengine|arr|auth-request|azure|cloud-trace|cluster|envoy|heroku|kong|ms-client|nf|original|railway)-',
    '^x-(?:render|vercel)-|^x-goog-(?:authenticated|iap)-|^x-varnish$',
    '-\\w*ip$|-(?:addr|for|host)$',
  ].join('|'),
  'i',
);
/** Headers with this prefix are arguments of tools, with names that the app chose. */
const ARGUMENT = /^mcp-param-/i;

/** The parts of a request, of Node, Express or Fastify, that say where it comes from. */
interface Arrived {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly socket?: { readonly remoteAddress?: string | undefined } | null;
}

/**
 * Tells whether a caller is on this machine: by the address of the socket, and since neither the Host, as behind a
 * tunnel, nor a header of a proxy says that the request comes from elsewhere. Callers without HTTP are: those of stdio,
 * and the app itself.
 *
 * @internal
 */
export function isLocalCaller(request: unknown): boolean {
  if (typeof request !== 'object' || request === null || !('socket' in request)) return true;
  const { headers = {}, socket } = request as Arrived;
  const authority = headers['host'] ?? headers[':authority'];
  const host = typeof authority === 'string' ? parseAuthority(authority) : undefined;
  return (
    isLoopbackAddress(socket?.remoteAddress) &&
    host !== undefined &&
    isLoopbackName(host.name) &&
    !Object.keys(headers).some((name) => PROXY_HEADER.test(name) && !ARGUMENT.test(name))
  );
}

/** Returns the address of a client, as the app sees it: behind a proxy, that of the proxy unless the app trusts it. @internal */
export function ipOf(request: unknown): string | undefined {
  const { ip, raw, socket } = (request ?? {}) as Arrived & { readonly ip?: string; readonly raw?: Arrived };
  return ip ?? (raw ?? { socket }).socket?.remoteAddress;
}

/**
 * Returns the address that distinguishes an anonymous caller from others: that of {@link ipOf}. A caller on IPv6 has a network of 64 bits, so its first half counts.
 *
 * @returns '' without one: on a UNIX socket, over stdio, within the app
 * @internal
 */
export function addressOf(request: unknown): string {
  const address = ipOf(request) ?? '';
  if (!address.includes(':')) return address;
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(address);
  if (mapped) return mapped[1]!;
  const [head = '', tail] = address.toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  const rest = tail === undefined || tail === '' ? [] : tail.split(':');
  // "::" stands for as many zeros as are missing of eight groups.
  const zeros =
    tail === undefined ? [] : Array.from({ length: Math.max(0, 8 - groups.length - rest.length) }, () => '0');
  const network = [...groups, ...zeros, ...rest].slice(0, 4);
  return `${network.map((group) => group.replace(/^0+(?=.)/, '')).join(':')}::`;
}

/** @internal */
export function isLoopbackAddress(address: string | undefined): boolean {
  if (address === undefined) return false;
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.');
}

/** The name and the port of a host, as in the header `Host`. @internal */
export interface Authority {
  /** The name is in lower case, without a trailing dot; IPv6 in brackets and in its canonical form. */
  readonly name: string;
  readonly port: string | undefined;
}

const AUTHORITY = /^(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(\d{0,5}))?$/;
const IPV4_LOOPBACK = /^127(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$/;
const MAPPED_LOOPBACK = /^\[::ffff:7f[0-9a-f]{2}:[0-9a-f]{1,4}\]$/;

/** @returns `undefined` for what is no host @internal */
export function parseAuthority(text: string): Authority | undefined {
  const match = AUTHORITY.exec(text.toLowerCase());
  if (!match) return undefined;
  const port = match[2] ? String(Number(match[2])) : undefined;
  if (Number(port) > 65_535) return undefined;
  const name = match[1]!;
  if (name.startsWith('[')) {
    return isIPv6(name.slice(1, -1)) ? { name: new URL(`http://${name}`).hostname, port } : undefined;
  }
  // "localhost." is the same name, rooted.
  const bare = name.endsWith('.') ? name.slice(0, -1) : name;
  return bare === '' ? undefined : { name: bare, port };
}

/** @param name of an {@link Authority} @internal */
export function isLoopbackName(name: string): boolean {
  return name === 'localhost' || name === '[::1]' || IPV4_LOOPBACK.test(name) || MAPPED_LOOPBACK.test(name);
}
