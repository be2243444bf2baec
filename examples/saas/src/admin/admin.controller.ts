import {
  Body,
  Controller,
  Delete,
  Get,
  HttpCode,
  Param,
  Put,
  UseGuards,
} from '@nestjs/common';
import { McpRegistry } from 'nestjs-mcp-streamable';
import type { McpAuditRecord } from 'nestjs-mcp-streamable/audit';
import { OperatorGuard } from '../accounts/guards.js';
import { AuditTrail } from '../audit/audit-trail.js';
import { PluginTools } from '../plugins/plugin.tools.js';
import { type Plugin, Plugins } from '../plugins/plugins.service.js';

/**
 * What operators do: switch tools off, install plugins of customers, and read the
 * audit.
 */
@Controller('admin')
@UseGuards(OperatorGuard)
export class AdminController {
  constructor(
    private readonly registry: McpRegistry,
    private readonly plugins: Plugins,
    private readonly trail: AuditTrail,
  ) {}

  /**
   * On all nodes, and over restarts if they share a state store. The model reads the
   * reason.
   */
  @Put('tools/:name/off')
  @HttpCode(204)
  off(
    @Param('name') name: string,
    @Body() { reason }: { reason: string },
  ): Promise<void> {
    return this.registry.disable(name, { reason });
  }

  @Delete('tools/:name/off')
  @HttpCode(204)
  on(@Param('name') name: string): Promise<void> {
    return this.registry.enable(name);
  }

  /** The list of tools changes for the users of this tenant; their clients are told. */
  @Put('tenants/:of/plugins')
  @HttpCode(204)
  install(@Param('of') tenant: string, @Body() plugin: Plugin): void {
    this.plugins.install(tenant, plugin);
    this.registry.changed(PluginTools);
  }

  @Get('audit')
  audit(): McpAuditRecord[] {
    return this.trail.records;
  }
}
