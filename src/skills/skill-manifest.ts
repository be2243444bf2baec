import type { Skill as SkillManifest } from '@modelcontextprotocol/server/ext/skills';
import { SKILL_FILE } from './skill-kind.js';

/** A file as the entry of its skill has it. */
export interface ManifestFile {
  readonly uri: string;
  readonly digest: string;
  readonly size: number;
}

/** The entry of a skill with the digests of its files. */
export type ManifestOfFiles = SkillManifest & { readonly resources: readonly ManifestFile[] };

const SCHEME = 'skill://';

/** Returns the path of a URI that {@link manifestOf} has made, such as `acme/refunds/SKILL.md`. */
export function pathOfUri(uri: string): string {
  return uri.slice(SCHEME.length).split('/').map(decodeURIComponent).join('/');
}

/** Returns the URI of the folder of a skill. @param uri of its `SKILL.md` */
export function rootOf(uri: string): string {
  return uri.slice(0, -SKILL_FILE.length - 1);
}

/**
 * Makes the entry of a skill, with the digests of its files.
 *
 * @param path of its folder below `skill://`
 * @param files by path below that folder
 * @returns the entry, or what is wrong with the skill
 */
export async function manifestOf(
  path: string,
  files: ReadonlyMap<string, Uint8Array>,
): Promise<{ readonly manifest: ManifestOfFiles } | { readonly problem: string }> {
  const { skillEntry, SkillCatalogError } = await import('./sdk-skills.js');
  try {
    const manifest = (await skillEntry(path, Object.fromEntries(files))) as ManifestOfFiles;
    const odd = manifest.resources.find(({ uri }) => new URL(uri).href !== uri);
    if (odd !== undefined)
      return { problem: `the name of the file "${pathOfUri(odd.uri)}" cannot be written in a URI` };
    return { manifest };
  } catch (error) {
    if (error instanceof SkillCatalogError) return { problem: error.problems.map(({ message }) => message).join('; ') };
    // Half of a surrogate pair in a name.
    if (error instanceof URIError) return { problem: 'the name of a file cannot be written in a URI' };
    throw error;
  }
}
