// #region skill
import { Injectable, UseGuards } from '@nestjs/common';
import { type McpContext, McpCtx } from 'nestjs-mcp-streamable';
import {
  type McpSkillContent,
  readSkillFolder,
  Skill,
} from 'nestjs-mcp-streamable/skills';
import { Roles, RolesGuard } from './order-guards.js';

@Injectable()
export class ShopSkills {
  @Skill({
    name: 'refunds',
    description: 'Refunds an order. Use it when a customer wants money back.',
  })
  @UseGuards(RolesGuard)
  @Roles(['staff'])
  refunds(@McpCtx() { principal }: McpContext): McpSkillContent {
    return {
      'SKILL.md': `# Refunds\n\nYou act for ${principal}. Send templates/email.md afterwards.\n`,
      'templates/email.md': 'Dear {name},\n\nyour money is on its way.\n',
    };
  }
  // #endregion

  // #region folder
  @Skill({ name: 'chargebacks', prefix: 'internal' })
  @UseGuards(RolesGuard)
  @Roles(['staff'])
  chargebacks(): Promise<McpSkillContent> {
    return readSkillFolder('internal/chargebacks');
  }
  // #endregion
}
