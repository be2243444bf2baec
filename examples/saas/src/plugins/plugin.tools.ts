import { Injectable, UseGuards } from '@nestjs/common';
import {
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpCaller,
  type McpContext,
  McpCtx,
  McpToolName,
} from 'nestjs-mcp-streamable';
import { ProGuard } from '../accounts/guards.js';
import { tenantOf } from '../orders/orders.tools.js';
import { Plugins } from './plugins.service.js';

/** The plugins of a tenant are its tools. */
@McpCatalogue()
@Injectable()
export class PluginTools {
  constructor(private readonly plugins: Plugins) {}

  /** It is asked once for a caller, until `McpRegistry.changed()`. */
  list({ routeParams }: McpCaller): McpCatalogueTool[] {
    return this.plugins.toolsOf(String(routeParams?.['tenant']));
  }

  @UseGuards(ProGuard)
  call(
    @McpToolName() name: string,
    @McpArgs() args: object,
    @McpCtx() ctx: McpContext,
  ): string {
    return this.plugins.run(tenantOf(ctx), name, args);
  }
}
