import { shown } from '../core/protocol/errors.js';
import { sdk } from '../core/protocol/spec.js';
import { isObject } from '../core/protocol/json-rpc.js';
import type { SkillOptions } from './skill-options.js';
import { McpHandlerDefinitionError, McpHandlerResultError } from '../core/handlers/handlers.errors.js';
import { type ServedHandler, served } from '../core/handlers/results/handler-outcome.js';
import { type EntrySource, optionsOf } from '../core/handlers/registry/entries.js';
import type {
  HandlerTable,
  SkillEntry,
  SkillFiles,
  SkillFrontmatter,
} from '../core/handlers/registry/handler-table.js';

/** The name of the file that makes a folder a skill. */
export const SKILL_FILE = 'SKILL.md';

/** @see https://agentskills.io/specification#name-field */
const NAME = /^[\da-z]+(?:-[\da-z]+)*$/;
const MAX_NAME = 64;
const MAX_DESCRIPTION = 1_024;
/** Matches one part of a prefix. The first one stands where the host of a URL is. */
const PREFIX_PART = /^[\da-z](?:[\w.-]*[\da-z])?$/i;

/** Returns the URI of a skill, also of one that {@link skillEntry} refuses. */
export function skillUri(options: SkillOptions): string {
  return `skill://${pathOf(options)}/${SKILL_FILE}`;
}

function pathOf({ prefix, name }: SkillOptions): string {
  return prefix === undefined ? name : `${prefix}/${name}`;
}

/** Makes the entry of a skill. @throws McpHandlerDefinitionError */
export function skillEntry(options: SkillOptions, source: EntrySource): SkillEntry {
  const { origin, runner, failures } = source;
  const { name, description, dynamic = false } = options;
  const fault = faultOf(options);
  if (fault !== undefined) throw new McpHandlerDefinitionError(origin, fault);
  const key = skillUri(options);
  const frontmatter = description === undefined ? undefined : Object.freeze({ name, description });
  const about: ServedHandler = { kind: 'resource', name: key, origin, failures };
  return {
    kind: 'skill',
    key,
    option: optionsOf(options),
    path: pathOf(options),
    frontmatter,
    dynamic,
    ...served(runner(undefined), about, (value) => filesOf(value, key, frontmatter)),
  };
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

/**
 * Called when the endpoint does not serve skills.
 *
 * @throws McpHandlerDefinitionError for a skill
 */
export function assertNoSkills(table: HandlerTable): void {
  for (const { origin } of table.all('skill')) {
    const reason =
      'its endpoint does not serve skills. Import McpSkillsModule.forRoot() of "nestjs-mcp-streamable/skills" beside McpStreamableModule; for an endpoint with a name: forRoot({ endpoint: "admin" }).';
    throw new McpHandlerDefinitionError(origin, reason);
  }
}
