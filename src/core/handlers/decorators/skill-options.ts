import type { LimitedOptions } from './handler-options.js';

/** Options of `@Skill()`. @publicApi */
export interface SkillOptions extends LimitedOptions {
  /** The name of the skill: 1 to 64 of `a-z 0-9`, with single hyphens between. It is the last part of its path. */
  name: string;
  /**
   * Says what the skill does and when to use it, in at most 1024 characters: models choose by it. `SKILL.md` then gets its
   * frontmatter from the options. Without it the method returns a `SKILL.md` with a frontmatter of its own.
   */
  description?: string;
  /** The parts of the path before the name, such as `acme/billing` of `skill://acme/billing/refunds/SKILL.md`. @default none */
  prefix?: string;
  /**
   * Whether the content differs from call to call, so that no digest of it can be given. Lists then do not run the method. Clients may
   * decline to load such a skill.
   *
   * @default false
   */
  dynamic?: boolean;
}
