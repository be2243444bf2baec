/**
 * A route of find-my-way, Fastify's router, as a RegExp over request paths. Only for requests that the router has already
 * found no route of ours for: parameters match any text of a segment, whatever pattern they have.
 *
 * @param url such as `/tenants/:tenant/mcp`; `::` is a colon, `*` is anything
 * @param options Fastify's `initialConfig`, whose router options may be one level down
 * @internal
 */
export function routePattern(url: string, options: RouterOptions): RegExp {
  const { caseSensitive, ignoreTrailingSlash } = { ...options, ...options.routerOptions };
  const source = url.replace(/::|:[^/(.-]+(?:\([^/]*\))?\??|\*|[^:*]+/g, (part) => {
    if (part === '::') return ':';
    if (part === '*') return '.*';
    return part.startsWith(':') ? '[^/]*' : part.replace(/[\\^$.|?*+()[\]{}]/g, '\\$&');
  });
  return new RegExp(`^${source}${ignoreTrailingSlash ? '/?' : ''}$`, caseSensitive === false ? 'i' : '');
}

interface RouterOptions {
  readonly caseSensitive?: boolean;
  readonly ignoreTrailingSlash?: boolean;
  readonly routerOptions?: RouterOptions;
}
