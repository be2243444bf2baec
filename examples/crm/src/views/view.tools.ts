import { Injectable, NotFoundException } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import {
  McpCatalogue,
  type McpCaller,
  type McpCatalogueTool,
  type McpContext,
  McpCtx,
  McpToolName,
} from 'nestjs-mcp-streamable';
import { Repository } from 'typeorm';
import type { CrmRequest } from '../auth/guards.js';
import type { DealDto } from '../deals/deal.dto.js';
import { DealsService } from '../deals/deals.service.js';
import { View } from './view.entity.js';

/** Each view of a tenant is a tool of its users. */
@McpCatalogue()
@Injectable()
export class ViewTools {
  constructor(
    @InjectRepository(View) private readonly views: Repository<View>,
    private readonly deals: DealsService,
  ) {}

  /** The principal begins with the tenant: see app.module.ts. */
  async list({ principal = '' }: McpCaller): Promise<McpCatalogueTool[]> {
    const [tenant = ''] = principal.split('|');
    const views = await this.views.findBy({ tenant });
    return views.map(({ name, description }) => ({
      name,
      description,
      inputSchema: { type: 'object' },
      annotations: { readOnlyHint: true },
    }));
  }

  async call(
    @McpToolName() name: string,
    @McpCtx() { request }: McpContext<CrmRequest>,
  ): Promise<{ deals: DealDto[] }> {
    const { tenant } = request.caller!;
    const view = await this.views.findOneBy({ tenant, name });
    if (!view) throw new NotFoundException(`There is no view ${name} any more.`);
    return { deals: await this.deals.find(tenant, view.stage, view.cents) };
  }
}
