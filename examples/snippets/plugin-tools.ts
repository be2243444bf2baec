// #region catalogue
import { Inject, Injectable, UseGuards } from '@nestjs/common';
import {
  type McpCaller,
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpRegistry,
  McpToolName,
} from 'nestjs-mcp-streamable';
import { BankActions, PlanGuard, PluginStore } from './plugin-store.js';

@McpCatalogue()
@Injectable()
export class PluginTools {
  constructor(@Inject(PluginStore) private readonly plugins: PluginStore) {}

  async list({ principal }: McpCaller): Promise<McpCatalogueTool[]> {
    const installed = await this.plugins.of(principal);
    return installed.map(({ name, description, schema }) => ({
      name,
      description,
      inputSchema: schema,
    }));
  }

  @UseGuards(PlanGuard)
  call(
    @McpToolName() name: string,
    @McpArgs() args: object,
    @McpCtx() ctx: McpContext,
  ): Promise<string> {
    return this.plugins.run(ctx.principal, name, args);
  }
}
// #endregion

// #region effects
@McpCatalogue()
@Injectable()
export class BankTools {
  constructor(@Inject(BankActions) private readonly actions: BankActions) {}

  async list({ principal }: McpCaller): Promise<McpCatalogueTool[]> {
    const actions = await this.actions.of(principal);
    return actions.map(({ name, currency }) => ({
      name,
      description: `Sends an amount in ${currency}`,
      inputSchema: {
        type: 'object',
        properties: {
          requestId: { type: 'string' },
          to: { type: 'string' },
          amount: { type: 'number' },
        },
        required: ['requestId', 'to', 'amount'],
      },
      scopes: ['payments:write'],
      confirm: `Send {amount} ${currency} to {to}?`,
      idempotency: { argument: 'requestId' },
      maxConcurrent: { max: 1, per: 'principal' },
      timeoutMs: 30_000,
    }));
  }

  call(name: string, args: object, ctx: McpContext): Promise<string> {
    return this.actions.run(ctx.principal, name, args);
  }
}
// #endregion

// #region changed
@Injectable()
export class PluginInstaller {
  constructor(
    @Inject(PluginStore) private readonly plugins: PluginStore,
    @Inject(McpRegistry) private readonly registry: McpRegistry,
  ) {}

  async install(user: string, plugin: string): Promise<void> {
    await this.plugins.install(user, plugin);
    this.registry.changed(PluginTools, user);
  }
}
// #endregion

// #region registered
@Injectable()
export class Maintenance {
  constructor(@Inject(McpRegistry) private readonly registry: McpRegistry) {}

  begin(): void {
    this.registry.registerTool({
      name: 'rebuild_index',
      description: 'Builds the search index again',
      guards: [PlanGuard],
      visible: ({ scopes }) => scopes?.includes('maintenance') ?? false,
      handler: () => 'The index is being built.',
    });
  }
}
// #endregion
