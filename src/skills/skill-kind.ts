import { LIMITED, namesOf } from '../core/handlers/decorators/handler-options.js';
import { McpHandlerResultError } from '../core/handlers/handlers.errors.js';
import type { FeatureKind } from '../core/plugins/feature-kind.js';
import { shown } from '../core/protocol/errors.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { sdk } from '../core/protocol/spec.js';
import type { SkillOptions } from './skill-options.js';

/** The id of the extension for skills (SEP-2640). */
export const SKILLS_EXTENSION = 'io.modelcontextprotocol/skills';

/** The fields of a frontmatter that each skill has. */
export interface SkillFrontmatter {
  readonly name: string;
  readonly description: string;
}

/** The content of the files of a skill, by path below its folder. */
export type SkillFiles = ReadonlyMap<string, Uint8Array>;

/** The name of the file that makes a folder a skill. */
export const SKILL_FILE = 'SKILL.md';

/** @see https://agentskills.io/specification#name-field */
const NAME = /^[\da-z]+(?:-[\da-z]+)*$/;
const MAX_NAME = 64;
const MAX_DESCRIPTION = 1_024;
/** Matches one part of a prefix. The first one stands where the host of a URL is. */
const PREFIX_PART = /^[\da-z](?:[\w.-]*[\da-z])?$/i;

/** What a method with `@Skill()` is. */
export const SKILL: FeatureKind<SkillOptions> = {
  name: 'skill',
  extension: SKILLS_EXTENSION,
  unserved:
    'its endpoint does not serve skills. Import McpSkillsModule.forRoot() of "nestjs-mcp-streamable/skills" beside McpStreamableModule; for an endpoint with a name: forRoot({ endpoint: "admin" }).',
  optionNames: namesOf<SkillOptions>({ ...LIMITED, name: true, description: true, prefix: true, dynamic: true }),
  faultOf,
  uriOf,
  resultOf: (returned, options) => filesOf(returned, uriOf(options), frontmatterOf(options)),
};

/** Returns the path of the folder of a skill, such as `acme/billing/refunds`. */
export function pathOf({ prefix, name }: SkillOptions): string {
  return prefix === undefined ? name : `${prefix}/${name}`;
}

/** Returns the frontmatter; `undefined`: the `SKILL.md` that the method returns has its own. */
export function frontmatterOf({ name, description }: SkillOptions): SkillFrontmatter | undefined {
  return description === undefined ? undefined : Object.freeze({ name, description });
}

function uriOf(options: SkillOptions): string {
  return `skill://${pathOf(options)}/${SKILL_FILE}`;
}

function faultOf({ name, description, prefix, dynamic }: SkillOptions): string | undefined {
  if (typeof name !== 'string' || name.length > MAX_NAME || !NAME.test(name)) {
    return `its "name" must be 1 to ${MAX_NAME} lowercase letters and digits, with single hyphens between, such as "git-workflow"; got ${shown(name)}.`;
  }
  if (description !== undefined && (typeof description !== 'string' || !isBetween(description, 1, MAX_DESCRIPTION))) {
    return `its "description" must be a text of 1 to ${MAX_DESCRIPTION} characters; got ${shown(description)}.`;
  }
  if (
    prefix !== undefined &&
    !(typeof prefix === 'string' && prefix.split('/').every((part) => PREFIX_PART.test(part)))
  ) {
    return `its "prefix" must be letters, digits, "_", "-" and ".", with "/" between its parts, such as "acme/billing"; got ${shown(prefix)}.`;
  }
  if (dynamic !== undefined && typeof dynamic !== 'boolean') {
    return `its "dynamic" must be true or false; got ${shown(dynamic)}.`;
  }
  if (dynamic && description === undefined) {
    return 'it is "dynamic", and has no "description": lists show that without running the method. Add one.';
  }
  return undefined;
}

function isBetween(text: string, min: number, max: number): boolean {
  // Characters, not code units: surrogate pairs count once.
  const { length } = Array.from(text);
  return length >= min && length <= max;
}

/**
 * Returns the files of a skill from what its method returned: the text of `SKILL.md`, or an object of files by path.
 *
 * @throws ResourceNotFoundError for `undefined` and `null`: this caller has no such skill
 * @throws McpHandlerResultError for anything else
 */
function filesOf(value: unknown, uri: string, frontmatter: SkillFrontmatter | undefined): SkillFiles {
  if (value === undefined || value === null) throw new sdk.ResourceNotFoundError(uri);
  const given = typeof value === 'string' ? { [SKILL_FILE]: value } : value;
  if (!isObject(given)) throw unusable(uri, `it returned ${shown(value)}`);
  const files = new Map(Object.entries(given).map(([path, content]) => [path, bytesOf(path, content, uri)]));
  const manifest = files.get(SKILL_FILE);
  if (!manifest) throw unusable(uri, `it returned no "${SKILL_FILE}"`);
  if (frontmatter) files.set(SKILL_FILE, withFrontmatter(manifest, uri, frontmatter));
  return files;
}

function bytesOf(path: string, content: unknown, uri: string): Uint8Array {
  const isPath = path.split('/').every((part) => part !== '' && !part.startsWith('.') && !part.includes('\0'));
  if (!isPath || path.includes('\\')) {
    const reason = `the path ${shown(path)} is not below the folder of the skill, or is hidden`;
    throw unusable(uri, reason);
  }
  if (typeof content === 'string') return Buffer.from(content);
  if (content instanceof Uint8Array) return content;
  throw unusable(uri, `its file ${shown(path)} is ${shown(content)}`);
}

/** Writes the frontmatter; a text of JSON is one of YAML, too. */
function withFrontmatter(manifest: Uint8Array, uri: string, { name, description }: SkillFrontmatter): Uint8Array {
  const body = Buffer.from(manifest).toString();
  if (/^\uFEFF?---\r?\n/.test(body)) {
    const reason = `its "${SKILL_FILE}" begins with "---", and @Skill() has a "description" that makes the frontmatter. Remove one of them`;
    throw unusable(uri, reason);
  }
  return Buffer.concat([
    Buffer.from(`---\nname: ${name}\ndescription: ${JSON.stringify(description)}\n---\n\n`),
    manifest,
  ]);
}

function unusable(uri: string, reason: string): McpHandlerResultError {
  const text = `The method of the skill "${uri}" must return the text of ${SKILL_FILE}, or an object of texts and bytes by path, such as { "${SKILL_FILE}": "…", "templates/email.md": "…" }: ${reason}.`;
  return new McpHandlerResultError(text);
}
