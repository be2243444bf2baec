import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HttpServer } from '@nestjs/common';
import { isThenable } from '../../common/promises.js';
import { whenArrived } from './body-reader.js';
import type { AdapterEdge, AroundRoute, EdgeDecision } from './edge-policy.js';
import { type EndpointKey, endpointOfHandler, hideMediaType, restoreHeaders } from './endpoint-route.js';

/*
 * The edge on Express 5: one layer in front of the app's router. It reads the routes from the router's stack, when a
 * request arrives and the stack has grown, because routes are declared after the edge.
 *
 * It uses `stack` of the router, and `match()`, `route` and `handle` of a layer: names that are stable across versions
 * of Express, because many packages read them.
 */

type Handler = (request: ExpressRequest, response: ServerResponse, next: (error?: unknown) => void) => unknown;
type ExpressRequest = IncomingMessage & { readonly path: string };

interface Express {
  readonly router: { readonly stack: Layer[] };
  use(handler: Handler): void;
}

interface Layer {
  handle: Handler;
  readonly route?: Route;
  match(path: string): unknown;
}

interface Route {
  readonly path: unknown;
  readonly stack: (Layer & { readonly method?: string })[];
  readonly methods: Readonly<Record<string, boolean>>;
}

/** @internal */
export const expressEdge: AdapterEdge = {
  install: installExpressEdge,
  answerFirst(adapter, answer) {
    const app = adapter.getInstance() as Express;
    app.use(function mcpDocument(request, response, next) {
      if (!answer(request, response)) next();
    });
    moveLastToFront(app.router.stack);
  },
  hasRoute(adapter, path) {
    const { stack } = (adapter.getInstance() as Express).router;
    return stack.some(({ route }) => {
      const { path: own, methods = {} } = route ?? {};
      return [own].flat().includes(path) && (methods['_all'] === true || methods['get'] === true);
    });
  },
};

function installExpressEdge(
  adapter: HttpServer,
  endpoint: EndpointKey,
  decide: EdgeDecision,
  around?: AroundRoute,
): () => string[] {
  const app = adapter.getInstance() as Express;
  const { stack } = app.router;
  const routes = new MarkedRoutes(stack, endpoint, around);
  app.use(function mcpEdge(request, response, next) {
    if (!routes.has(request)) return next();
    if (!decide(request, response)) return undefined;
    hideMediaType(request);
    // Then the guards need not wait for the body.
    return request.method === 'POST' ? whenArrived(next) : next();
  });
  moveLastToFront(stack);
  return () => routes.paths();
}

/** Finds the endpoint's routes in the stack of the app's router. */
class MarkedRoutes {
  /** The length of the stack when it was last read. */
  private seen = -1;
  /** Holds one layer per path. */
  private layers: Layer[] = [];

  constructor(
    private readonly stack: Layer[],
    private readonly endpoint: EndpointKey,
    private readonly around?: AroundRoute,
  ) {}

  has({ path }: ExpressRequest): boolean {
    this.lookAgain();
    return this.layers.some((layer) => matches(layer, path));
  }

  paths(): string[] {
    this.lookAgain();
    return this.layers.map((layer) => String(layer.route!.path));
  }

  private lookAgain(): void {
    if (this.stack.length === this.seen) return;
    this.seen = this.stack.length;
    const ours = this.stack.filter((layer) => layer.route && this.prepare(layer.route));
    this.layers = [...new Map(ours.map((layer) => [String(layer.route!.path), layer])).values()];
  }

  /** Makes a route of the endpoint restore the media type before its guards. @returns whether the route is one */
  private prepare(route: Route): boolean {
    if (route.stack[0]?.handle === this.#restore) return true;
    const marked = route.stack.find((layer) => endpointOfHandler(layer.handle) === this.endpoint);
    if (!marked) return false;
    if (this.around) marked.handle = surrounded(marked.handle, this.around);
    (route as unknown as Record<string, (handler: Handler) => void>)[marked.method!]!(this.#restore);
    moveLastToFront(route.stack);
    return true;
  }

  readonly #restore: Handler = (request, _response, next) => {
    restoreHeaders(request);
    this.around?.begins(request);
    next();
  };
}

function surrounded(handle: Handler, around: AroundRoute): Handler {
  return (request, response, next) => {
    const handled = handle(request, response, next);
    // It is no promise if the request has another version of the API.
    return isThenable(handled) && around.watches() ? handled.then(() => around.ended(request, response)) : handled;
  };
}

/** Returns whether a layer matches. A path that cannot be decoded is no match: the router answers it. */
function matches(layer: Layer, path: string): boolean {
  try {
    return Boolean(layer.match(path));
  } catch {
    return false;
  }
}

function moveLastToFront<T>(stack: T[]): void {
  stack.unshift(stack.pop()!);
}
