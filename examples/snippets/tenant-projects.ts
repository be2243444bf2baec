// #region tools
import { Injectable } from '@nestjs/common';
import { type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import type { TenantRequest } from './tenant.guard.js';

/** Returns the tenant that the guard has checked. It is never an argument of a tool. */
export const tenantOf = ({ request }: McpContext<TenantRequest>): string =>
  request.params.tenant;

@Injectable()
export class ProjectTools {
  @Tool({ name: 'list_projects', description: 'Lists the projects' })
  list(@McpCtx() ctx: McpContext<TenantRequest>): string {
    return `The projects of ${tenantOf(ctx)}: …`; // WHERE tenant = …
  }

  @Tool({ name: 'count_visits', description: 'Counts your visits' })
  async visits(@McpCtx() ctx: McpContext<TenantRequest>): Promise<string> {
    const mine = await ctx.principalState();
    const { visits = 0 } = mine.data as { visits?: number };
    await mine.patch({ visits: visits + 1 });
    return `Visit ${visits + 1} of ${tenantOf(ctx)}.`;
  }
}
// #endregion
