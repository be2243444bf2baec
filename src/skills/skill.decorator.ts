import { declareHandler } from '../core/handlers/decorators/handler.decorators.js';
import { SKILL } from './skill-kind.js';
import type { SkillOptions } from './skill-options.js';

/**
 * A method with `@Skill()` returns this: the text of `SKILL.md`, or the files of the skill by path below its folder, such as
 * `templates/email.md`; `undefined` if this caller has no such skill.
 *
 * @publicApi
 */
export type McpSkillContent = string | Readonly<Record<string, string | Uint8Array>> | undefined;

/**
 * Makes a method a skill: instructions for models, with the files that belong to them. It is called with `({ uri }, ctx)`, the URI of
 * its `SKILL.md`, and returns {@link McpSkillContent} or a promise of it.
 *
 * ```diff
 * +@Skill({ name: 'refunds', description: 'Refunds an order by the policy of the shop. Use it when a customer wants money back.' })
 * +@UseGuards(SupportStaff)
 *  async refunds(): Promise<string> {
 *    return `# Refunds\n\n${await this.policies.text('refunds')}`;
 *  }
 * ```
 *
 * The endpoint needs `McpSkillsModule`. Guards, interceptors and filters run around the method as around a resource; guards see a
 * resource with the URI of `SKILL.md`. The method runs for each list of skills and for each file that a client reads, so that digests
 * match its content.
 *
 * @see https://modelcontextprotocol.io/extensions/skills/overview
 * @publicApi
 */
export function Skill(options: SkillOptions): MethodDecorator {
  return declareHandler('Skill', { kind: 'feature', feature: SKILL, options });
}
