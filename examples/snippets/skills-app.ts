// #region module
import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpSkillsModule } from 'nestjs-mcp-streamable/skills';
import { ShopSkills } from './shop-skills.js';

@Module({
  imports: [
    McpStreamableModule.forRoot({ serverInfo: { name: 'shop', version: '1.0.0' } }),
    McpSkillsModule.forRoot({ folders: ['skills'] }),
  ],
  providers: [ShopSkills],
})
export class ShopModule {}
// #endregion
