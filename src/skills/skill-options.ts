import type { LimitedOptions } from '../core/handlers/decorators/handler-options.js';

/** Options of `@Skill()`. @publicApi */
export interface SkillOptions extends LimitedOptions {
  /** Sets the name of the skill: 1 to 64 of `a-z 0-9`, with single hyphens between. It is the last part of its path. */
  name: string;
  /**
   * Says what the skill does and when to use it, in at most 1024 characters: models choose by it. `SKILL.md` then gets its
   * frontmatter from the options. Without it the method returns a `SKILL.md` with a frontmatter of its own.
   */
  description?: string;
  /**
   * Sets the parts of the path before the name, such as `acme/billing` of `skill://acme/billing/refunds/SKILL.md`.
   *
   * @default none
   */
  prefix?: string;
  /**
   * Says whether the content differs from call to call. Lists then do not run the method, and have no digest of the
   * content. Clients may decline to load such a skill.
   *
   * @default false
   */
  dynamic?: boolean;
}
