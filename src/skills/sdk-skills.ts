/**
 * The only import of the SDK's code for skills: entries with their digests, and the checks of the Agent Skills specification. It is
 * loaded when the app starts.
 */
export { SKILL_LIMITS, skillEntry, SkillCatalogError } from '@modelcontextprotocol/server/ext/skills';
