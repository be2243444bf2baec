import { flag, list, type OptionTable, type Resolved, resolveGroup, text } from '../core/common/options.js';

/** Takes the options of `McpSkillsModule.forRoot()`. @publicApi */
export interface McpSkillsOptions {
  /** Names the endpoint that serves the skills, by its option `name`. @default the endpoint without a name */
  endpoint?: string;
  /**
   * Lists folders that contain skills. Each folder below one of these that has a `SKILL.md` is a skill, which the
   * endpoint serves to every caller. A relative path begins at the working directory of the process.
   *
   * @default none (the skills are those of `@Skill()`)
   */
  folders?: readonly string[];
  /**
   * Decides whether the module looks for changes in the folders, about each second while the app runs, and notifies
   * clients when the lists have changed. With `false` the skills are those that exist when the app starts, and a file
   * that changes later is no longer served.
   *
   * @default `true`; `false` if `NODE_ENV` is `production` or `test`
   */
  watch?: boolean;
}

const SKILLS_TABLE = {
  endpoint: text(undefined),
  folders: list(
    [],
    (folder) => typeof folder === 'string' && folder !== '',
    'an array of paths of folders, such as ["skills"]',
  ),
  // The default depends on NODE_ENV.
  watch: flag(undefined),
} satisfies OptionTable<McpSkillsOptions>;

export type ResolvedSkillsOptions = Resolved<typeof SKILLS_TABLE>;

export const SKILLS_OPTION_NAMES = Object.keys(SKILLS_TABLE);

/** The injection token of the {@link ResolvedSkillsOptions}. */
export const SKILLS_OPTIONS = Symbol('nestjs-mcp-streamable:skills-options');

/** Validates the options and adds defaults. @throws McpOptionError */
export function resolveSkillsOptions(options: McpSkillsOptions = {}): ResolvedSkillsOptions {
  return resolveGroup(SKILLS_TABLE, options);
}

/** Returns whether folders are watched. */
export function watches({ watch, folders }: ResolvedSkillsOptions): boolean {
  return folders.length > 0 && (watch ?? !['production', 'test'].includes(process.env['NODE_ENV'] ?? ''));
}
