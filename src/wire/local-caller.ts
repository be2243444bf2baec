/** A pattern, since each proxy and CDN has its own: `x-forwarded-for`, `cf-connecting-ip`, `true-client-ip`, `x-original-host`… */
const PROXY_HEADER = /^via$|^(?:x-)?forwarded|^(?:x-original|x-envoy|x-amz|cf)-|-\w*ip$|-(?:host|for)$/;

/** The parts of a request, of Node, Express or Fastify, that say where it comes from. */
interface Arrived {
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly socket?: { readonly remoteAddress?: string | undefined } | null;
}

/**
 * Whether a caller is on this machine: by the address of the socket, and since no header of a proxy says that the request comes
 * from elsewhere. Callers without HTTP are: those of stdio, and the app itself.
 *
 * @internal
 */
export function isLocalCaller(request: unknown): boolean {
  if (typeof request !== 'object' || request === null || !('socket' in request)) return true;
  const { headers = {}, socket } = request as Arrived;
  return isLoopbackAddress(socket?.remoteAddress) && !Object.keys(headers).some((name) => PROXY_HEADER.test(name));
}

/** @internal */
export function isLoopbackAddress(address: string | undefined): boolean {
  if (address === undefined) return false;
  return address === '::1' || address.startsWith('127.') || address.startsWith('::ffff:127.');
}
