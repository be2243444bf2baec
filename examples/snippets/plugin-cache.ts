// #region cache
import { Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { McpEndpointHost, McpEndpointPlugin } from 'nestjs-mcp-streamable';
import { type McpHandlerHooks, McpPlugin } from 'nestjs-mcp-streamable/plugins';

/** The results of the tool are kept for each caller. */
export const CachedMs = (ms: number) => SetMetadata('cachedMs', ms);
const isKept = (result: { isError?: unknown; resultType?: unknown } & object) =>
  !result.isError && result.resultType !== 'input_required';

@Injectable()
export class ResultCache extends McpPlugin {
  readonly ring = 'app';
  private readonly reflector = new Reflector();

  attach({ clock }: McpEndpointHost): McpEndpointPlugin {
    const kept = new Map<string, { until: number; result: object }>();
    return {
      handler: ({ key, metadata }) => {
        const ms = this.reflector.getAllAndOverride<number>('cachedMs', metadata);
        const cached: McpHandlerHooks['run'] = (run) => ({
          around: async (next) => {
            const { principal, era } = run.call;
            const id = JSON.stringify([principal, era, key, run.sent]);
            const hit = kept.get(id);
            if (hit && hit.until > clock.now()) return run.answer(hit.result);
            const result = await next();
            if (principal === undefined || !isKept({ ...result })) return result;
            kept.delete(id);
            kept.set(id, { until: clock.now() + ms, result });
            if (kept.size > 1_000) kept.delete(kept.keys().next().value!);
            return result;
          },
        });
        return ms ? { run: cached } : undefined;
      },
    };
  }
}
// #endregion
