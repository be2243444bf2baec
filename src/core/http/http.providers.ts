import type { Provider } from '@nestjs/common';
import { McpClock } from '../common/clock.js';
import { logger } from '../calls/operator-log.js';
import { MCP_OPTIONS } from '../common/options.js';
import type { ResolvedProtocolOptions } from '../eras/protocol.options.js';
import { EndpointCachePolicy } from '../methods/cache-hints.js';
import { RequestContexts } from '../handlers/invocation/request-contexts.js';
import { SessionRuntime } from '../sessions/session-runtime.js';
import type { ResolvedSessionOptions } from '../sessions/session.options.js';
import {
  type AroundRoute,
  EDGE_POLICY,
  type EdgePolicy,
  hostOriginPolicy,
  SESSION_METHODS,
  STATELESS_METHODS,
} from './edge/edge-policy.js';
import { ENDPOINT_KEY, type EndpointKey } from './edge/endpoint-route.js';
import { Challenges } from './credentials.js';
import { HttpEdge } from './edge/http-edge.js';
import type { ResolvedHttpOptions } from './http.options.js';
import { McpExceptionFilter } from './mcp-exception.filter.js';
import { McpRequestReader } from './mcp-incoming.js';
import { defaultPrincipal } from './principal.js';
import { RefusalLog } from './refusal-log.js';
import { McpResponder } from './responder.js';
import { EndpointStop } from './endpoint-stop.js';
import { StartLog } from './start-log.js';
import { UnservedRequests } from './unserved-requests.js';

export const httpProviders: Provider[] = [
  Challenges,
  McpExceptionFilter,
  RefusalLog,
  UnservedRequests,
  StartLog,
  EndpointStop,
  {
    provide: HttpEdge,
    useFactory: (
      key: EndpointKey,
      policy: EdgePolicy,
      contexts: RequestContexts,
      unserved: UnservedRequests,
      clock: McpClock,
      refusals: RefusalLog,
    ) => {
      const around: AroundRoute = {
        begins: (request) => contexts.open(request),
        watches: () => unserved.possible,
        ended: (request, response) => unserved.ended(request, response),
      };
      return new HttpEdge(key, policy, around, clock, (request, refusal) => refusals.note(request, refusal));
    },
    inject: [ENDPOINT_KEY, EDGE_POLICY, RequestContexts, UnservedRequests, McpClock, RefusalLog],
  },
  {
    provide: McpRequestReader,
    useFactory: (
      options: ResolvedHttpOptions & ResolvedSessionOptions,
      clock: McpClock,
      policy: EndpointCachePolicy,
      { calls, held }: SessionRuntime,
    ) => {
      const warn = (): void => {
        if (!policy.decides()) return;
        logger.warn(
          'The guards accepted a request for which "principal" returns no id: its caller is anonymous, and an anonymous session can be used by every caller that knows its id. Set the option "principal" to identify callers; if they are anonymous on purpose, set it to () => undefined.',
        );
      };
      // A `principal` function of the app that returns no id does so on purpose.
      const byDefault = options.principal === defaultPrincipal;
      return new McpRequestReader(options, clock, calls.admission, byDefault ? warn : undefined, held);
    },
    inject: [MCP_OPTIONS, McpClock, EndpointCachePolicy, SessionRuntime],
  },
  {
    provide: McpResponder,
    useFactory: (options: ResolvedHttpOptions, clock: McpClock) => new McpResponder({ ...options, clock }),
    inject: [MCP_OPTIONS, McpClock],
  },
  {
    provide: EDGE_POLICY,
    useFactory: ({
      eras,
      sessions,
      allowedHosts,
      allowedOrigins,
    }: ResolvedHttpOptions & ResolvedProtocolOptions & ResolvedSessionOptions): EdgePolicy => {
      const allow = eras === 'modern' || sessions === 'off' ? STATELESS_METHODS : SESSION_METHODS;
      return hostOriginPolicy({ allowedHosts, allowedOrigins, allow }, ({ localAddress }) => {
        const where = localAddress === undefined ? 'over a Unix socket' : 'on a network address';
        logger.warn(
          `A request arrived ${where} while "allowedHosts" is empty, so every Host is accepted and DNS rebinding is possible. List the host names of this server in "allowedHosts".`,
        );
      });
    },
    inject: [MCP_OPTIONS],
  },
];
