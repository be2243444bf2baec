// #region quota
import { HttpException, Injectable, SetMetadata } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import type { McpEndpointHost, McpEndpointPlugin } from 'nestjs-mcp-streamable';
import { McpPlugin, type McpRun } from 'nestjs-mcp-streamable/plugins';
import { McpStateStore } from 'nestjs-mcp-streamable/stores';

const DAY_MS = 86_400_000;
type Plans = Record<string, number> | undefined;
/** Says how often a caller may call a tool in a day, by plan. */
export const PerDay = (plans: Plans) => SetMetadata('perDay', plans);

@Injectable()
export class PlanQuota extends McpPlugin {
  readonly ring = 'limit';
  private readonly reflector = new Reflector();

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    const enter = async ({ call, target }: McpRun, plans: NonNullable<Plans>) => {
      const { id, plan } = (call.request as { user: { id: string; plan: string } }).user;
      const day = Math.floor(endpoint.clock.now() / DAY_MS);
      const key = `quota.${endpoint.owner}:${[day, target.key, id].map(hex).join('.')}`;
      const store = endpoint.get<Required<McpStateStore>>(McpStateStore);
      for (let counted: unknown = false; counted !== true;) {
        const now = (await store.get(key)) as { used: number } | undefined;
        const used = now?.used ?? 0;
        if (used >= (plans[plan] ?? 0))
          throw new HttpException('No calls left today.', 429);
        counted = await store.compareAndSet(key, now, { used: used + 1 }, DAY_MS);
      }
    };
    return {
      handler: ({ metadata }) => {
        const plans = this.reflector.getAllAndOverride<Plans>('perDay', metadata);
        return plans && { run: (run) => ({ entering: () => enter(run, plans) }) };
      },
    };
  }
}
const hex = (part: unknown): string => Buffer.from(String(part)).toString('hex');
// #endregion
