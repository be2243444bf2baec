import { count, MCP_OPTIONS, required, resolveGroup, timer } from '../core/common/options.js';
import { CONCURRENCY_TABLE, type HandlerConcurrency } from '../core/handlers/decorators/handler-options.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
} from '../core/plugins/mcp-plugin.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { LimitedRound, type PlaceLimit, type RunLimits } from './limited-round.js';
import { EndpointPlaces } from './places.js';
import { resultBound } from './result-bound.js';

/** The options of an endpoint that it reads. */
interface LimitOptions {
  readonly maxResultBytes?: number | undefined;
}

/** How long a handler runs, how many of its calls at a time, and how large its results are. */
export class LimitsPlugin extends McpPlugin {
  readonly ring = 'limit';

  attach(endpoint: Pick<McpEndpointHost, 'clock' | 'get'>): McpEndpointPlugin {
    const { clock } = endpoint;
    const { maxResultBytes } = endpoint.get<LimitOptions>(MCP_OPTIONS);
    const places = new EndpointPlaces();
    return {
      handler: (target): McpHandlerHooks | undefined => {
        const bound = resultBound(target, maxResultBytes);
        const limits = limitsOf(target);
        if (!limits) return bound && { bound };
        const { source, kind, key } = target;
        const parts = { limits, clock, places, handler: JSON.stringify([source, kind, key]) };
        return { bound, run: (run) => new LimitedRound(run, parts) };
      },
    };
  }
}

/** @returns `undefined`: it has none @throws McpHandlerDefinitionError */
function limitsOf(target: McpHandlerTarget): RunLimits | undefined {
  const timeoutMs = target.option('timeoutMs') as number | undefined;
  const maxConcurrent = target.option('maxConcurrent') as number | HandlerConcurrency | undefined;
  if (timeoutMs === undefined && maxConcurrent === undefined) return undefined;
  try {
    timer(undefined)(timeoutMs, 'timeoutMs');
    return { timeoutMs, places: maxConcurrent === undefined ? undefined : placeLimit(maxConcurrent) };
  } catch (error) {
    const wanted = `its "timeoutMs" must be a whole number of at least 1, and its "maxConcurrent" such a number or { max, per: 'principal' }`;
    throw new McpHandlerDefinitionError(target.origin, `${wanted}: ${(error as Error).message}`, { cause: error });
  }
}

/** Reads the option `maxConcurrent`. @throws McpOptionError */
function placeLimit(given: number | HandlerConcurrency): PlaceLimit {
  if (typeof given !== 'object') return { max: count(required)(given, 'maxConcurrent'), perPrincipal: false };
  return { max: resolveGroup(CONCURRENCY_TABLE, given, 'maxConcurrent').max, perPrincipal: true };
}
