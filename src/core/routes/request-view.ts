import { isObject } from '../protocol/json-rpc.js';
import type { RequestPart } from '../handlers/schema/handler-schema.js';
import { ArgumentsAsked, type Invocation } from '../handlers/invocation/invocation.js';
import type { JsonArguments, RouteParts } from './route-values.js';
import type { RouteUrls } from './route-url.js';

/** Describes a route for the views of its requests. */
export interface SeenRoute {
  readonly urls: RouteUrls;
  /** Whether arguments stand in the URL. */
  readonly hasArgumentsInUrl: boolean;
  /** The names in the path whose values the router gives as lists of segments: wildcards on Express. */
  readonly splitNames: ReadonlySet<string>;
  /** The method that the view has in place of the POST; absent: a route for all methods. */
  readonly verb: string | undefined;
  /** What Fastify's `@RouteConfig()` keeps of the route. */
  readonly config: object | undefined;
}

const PARTS: readonly RequestPart[] = ['params', 'query', 'body'];
const VIEW: unique symbol = Symbol('nestjs-mcp-streamable:request-view');
const OWN = { enumerable: true, configurable: true };
const NONE: JsonArguments = Object.freeze({});
const NO_PARTS: RouteParts = { params: NONE, query: NONE, body: NONE };

/** What a view is made of. */
interface ViewState {
  /** The request of HTTP, of which this is a view. */
  readonly request: RequestLike;
  readonly route: SeenRoute;
  readonly call: Pick<Invocation, 'response'>;
  /** The parts as they were made, before enhancers ran. */
  readonly sent: RouteParts;
  /** Whether there are no arguments, as while a list is made. */
  readonly isListed: boolean;
  url?: string;
}

type View = object & { readonly [VIEW]: ViewState };

interface RequestLike {
  readonly raw?: object;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly baseUrl?: string;
  readonly routeOptions?: { readonly config?: object };
}

/**
 * # The request of a call whose method is a route too
 *
 * Enhancers of such a method are written for its route: a guard reads `request.query.owner`, or decides by `request.url`. In the
 * POST of the endpoint both are what the client wrote into the URL, while the method gets the argument. So they, and
 * the method, get an object whose prototype is the request, with what the request of the route would have:
 *
 * | property | is |
 * |---|---|
 * | `params`, `query`, `body` | the arguments, each where the decorator of its parameter takes it from |
 * | `url`, `originalUrl`, and Express' `path` | the URL of the route with these arguments |
 * | `method` | that of the route |
 * | `route` (Express), `routeOptions` (Fastify) | the declared path and its options |
 * | `raw` (Fastify) | a view of Node's request, with the same URL and method |
 * | `res` (Express) | the response that enhancers see |
 * | headers in which proxies name the URL or the method | those of the route, if the POST has them |
 *
 * All else is that of the POST: its caller, host and headers.
 *
 * - each call has its own: what a guard writes into it stays in the call
 * - the arguments are those that the client sent, before validation, as on a route; in `params` and `query` they are texts, as
 *   a URL has them
 * - what an enhancer writes into one of the three, or in its place, the method gets
 *
 * @param parts the arguments where they stand in the request; `undefined` while a list is made
 * @returns a view, whose three parts throw {@link ArgumentsAsked} when there are no arguments; its URL too, if it has arguments
 */
export function requestView(
  request: unknown,
  parts: RouteParts | undefined,
  route: SeenRoute,
  call: Pick<Invocation, 'response'>,
): object {
  const real = isObject(request) ? (request as RequestLike) : undefined;
  const { params: joined, query, body } = parts ?? NO_PARTS;
  const params = split(joined as JsonArguments, route.splitNames);
  // The parts are copied as they were sent, as enhancers may write into them.
  const sent = { params: { ...params }, query: { ...(query as object) }, body: { ...(body as object) } };
  const state: ViewState = { request: real ?? {}, route, call, sent, isListed: parts === undefined };
  const made = real && 'raw' in real ? OF_FASTIFY : OF_EXPRESS;
  if (!parts) return viewOf(real, state, {}, { ...made, ...WITHOUT_ARGUMENTS });
  return viewOf(real, state, { params, query, body }, made);
}

/** Makes a view. It gets its prototype last: properties of an object whose prototype is new are slow to define. */
function viewOf(real: object | undefined, state: ViewState, own: object, made: PropertyDescriptorMap): object {
  const { verb } = state.route;
  // The properties are not set on the request: `query` of Express is a getter without a setter.
  const view: object = verb === undefined ? { ...own } : { ...own, method: verb };
  Object.defineProperty(view, VIEW, { value: state });
  Object.defineProperties(view, made);
  return Object.setPrototypeOf(view, real ?? null) as object;
}

/** Returns a property that is made when it is read; what an enhancer writes takes its place. */
function lazy(name: string, get: (state: ViewState, view: View) => unknown): PropertyDescriptor {
  return {
    ...OWN,
    get(this: View) {
      return get(this[VIEW], this);
    },
    set(this: View, value: unknown) {
      Object.defineProperty(this, name, { ...OWN, value, writable: true });
    },
  };
}

const URLS = {
  url: lazy('url', urlOf),
  originalUrl: lazy('originalUrl', (state) => `${state.request.baseUrl ?? ''}${urlOf(state)}`),
};
/** Listeners belong to the real request: with a count of its own, a view would make Node drop them. */
const EVENTS = Object.fromEntries(
  ['_events', '_eventsCount'].map((name) => [
    name,
    {
      configurable: true,
      get(this: View): unknown {
        return Reflect.get(this[VIEW].request, name);
      },
      set(this: View, value: unknown): void {
        Reflect.set(this[VIEW].request, name, value);
      },
    },
  ]),
);
const HEADERS = { headers: lazy('headers', (state, view) => kept(view, 'headers', headersOf(state))) };
const OF_EXPRESS = {
  ...EVENTS,
  ...URLS,
  ...HEADERS,
  route: lazy('route', ({ route, sent, isListed }) => route.urls.pathFor(isListed ? undefined : sent.params).route),
  res: lazy('res', ({ call }) => call.response),
};
const OF_FASTIFY = {
  ...URLS,
  ...HEADERS,
  raw: lazy('raw', (state, view) => kept(view, 'raw', rawOf(state, view))),
  routeOptions: lazy('routeOptions', routeOptionsOf),
};

const WITHOUT_ARGUMENTS = Object.fromEntries(PARTS.map((part) => [part, { ...OWN, get: refuse }]));

/** Stores a property that was made, so that what is written into it is kept. */
function kept<T>(view: object, name: string, value: T): T {
  Object.defineProperty(view, name, { ...OWN, value, writable: true });
  return value;
}

/** @throws ArgumentsAsked while a list is made, if the URL has arguments */
function urlOf(state: ViewState): string {
  const { route, sent, isListed } = state;
  if (isListed && route.hasArgumentsInUrl) refuse();
  return (state.url ??= route.urls.urlOf(sent));
}

/** Returns a view of Node's request, which Fastify keeps. */
function rawOf(state: ViewState, view: View): object {
  const raw = state.request.raw!;
  const urls = 'originalUrl' in raw ? URLS : { url: URLS.url };
  // The plugin that runs middleware puts them there.
  const parts = PARTS.filter((part) => part in raw).map((part) => {
    return [part, lazy(part, () => (view as unknown as RouteParts)[part])] as const;
  });
  return viewOf(raw, { ...state, request: raw }, {}, { ...EVENTS, ...urls, ...HEADERS, ...Object.fromEntries(parts) });
}

function routeOptionsOf({ request, route, sent, isListed }: ViewState): object {
  const { path: url } = route.urls.pathFor(isListed ? undefined : sent.params);
  const { verb: method, config } = route;
  return { ...request.routeOptions, method, url, config: { ...config, method, url }, schema: undefined };
}

/** Proxies and HTTP/2 name in these headers what the client asked for. */
const NAMING_URL: readonly string[] = [
  'x-original-url',
  'x-original-uri',
  'x-original-path',
  'x-rewrite-url',
  'x-forwarded-url',
  'x-forwarded-uri',
  'x-forwarded-path',
  'x-replaced-path',
  'x-envoy-original-path',
  'x-waws-unencoded-url',
  ':path',
];
const NAMING_METHOD: readonly string[] = ['x-original-method', 'x-forwarded-method', ':method'];

/** Returns the headers of the POST; those that name its URL or its method name those of the route. */
function headersOf(state: ViewState): unknown {
  const { headers } = state.request;
  if (!headers || ![...NAMING_URL, ...NAMING_METHOD].some((name) => name in headers)) return headers;
  const seen: Record<string, unknown> = { ...headers };
  for (const name of NAMING_METHOD) if (name in seen) seen[name] = state.route.verb ?? seen[name];
  for (const name of NAMING_URL) {
    // A guard that copies all headers while a list is made must not read the URL by it.
    const property = { configurable: true, enumerable: !state.isListed, get: () => urlOf(state) };
    if (name in seen) Object.defineProperty(seen, name, property);
  }
  return seen;
}

/** Returns the parts of a view as they were made, before enhancers ran. */
export function sentParts(view: unknown): RouteParts {
  return (view as View)[VIEW].sent;
}

function split(path: JsonArguments, names: ReadonlySet<string>): JsonArguments {
  if (names.size === 0) return path;
  const entries = Object.entries(path).map(([name, value]) => {
    return [name, names.has(name) && typeof value === 'string' ? value.split('/') : value] as const;
  });
  return Object.fromEntries(entries);
}

function refuse(): never {
  throw new ArgumentsAsked();
}
