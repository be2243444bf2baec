/**
 * Skills: instructions for models that an endpoint serves (SEP-2640), from folders and from methods.
 *
 * @module nestjs-mcp-streamable/skills
 */

export { type McpSkillsModuleAsyncOptions, McpSkillsModule } from './mcp-skills.module.js';
export { type McpSkillContent, Skill } from './skill.decorator.js';
export { readSkillFolder } from './skill-folder.js';
export type { McpSkillsOptions } from './skills.options.js';
export type { SkillOptions } from './skill-options.js';
