import { createHash } from 'node:crypto';
import { McpDuplicateHandlerError } from '../core/handlers/handlers.errors.js';
import { SKILL_FILE } from './skill-kind.js';
import { logger } from '../core/calls/operator-log.js';
import { excessOf, type FoundFile, type FoundFiles, type SkillFolder, SkillFileError } from './skill-folder.js';
import { type ManifestFile, type ManifestOfFiles, manifestOf, pathOfUri } from './skill-manifest.js';

/** So many skills are read at a time. */
const AT_A_TIME = 8;

/** A skill of a folder. */
export interface FolderSkill {
  readonly folder: SkillFolder;
  /** Differs when a file of it was changed, added or removed. */
  readonly stamp: string;
  /** Clients get exactly this. */
  readonly manifest: ManifestOfFiles;
}

/** A skill that is left out, so that this is logged once. */
interface LeftOut {
  readonly stamp: string;
  readonly manifest: undefined;
}

type Known = Map<string, FolderSkill | LeftOut>;

/**
 * # The skills of folders
 *
 * Each folder with a `SKILL.md`, at any depth, is a skill with all files below it. One that is broken is left out, and the log says why.
 * The files stay on the disk; a catalog has their digests. A file is served only while it has the digest that its skill was listed with,
 * so that what clients get was inside of the folder when the skill was read, whatever was put into its place since.
 */
export class FolderSkills {
  #known: Known = new Map();
  #stamp: string | undefined;

  constructor(private readonly folders: readonly SkillFolder[]) {}

  /**
   * Reads the folders.
   *
   * @returns the skills; `undefined` if nothing has changed since the last time
   * @throws McpDuplicateHandlerError for two skills with one URI
   */
  async read(): Promise<FolderSkill[] | undefined> {
    const found = await Promise.all(this.folders.map((folder) => folder.find()));
    const stamp = JSON.stringify(found.map(({ files, faults }) => [files, [...faults]]));
    if (stamp === this.#stamp) return undefined;
    const known: Known = new Map();
    const all: FolderSkill[] = [];
    for (const [index, folder] of this.folders.entries()) {
      all.push(...(await this.#skillsOf(folder, found[index]!, known)));
    }
    // Also before an error: it is reported once for what is there now.
    [this.#known, this.#stamp] = [known, stamp];
    const skills = new Map<string, FolderSkill>();
    for (const skill of all) {
      const { uri } = skill.manifest;
      const other = skills.get(uri);
      if (other) throw new McpDuplicateHandlerError('skill', uri, originOf(other), originOf(skill));
      skills.set(uri, skill);
    }
    return all;
  }

  async #skillsOf(folder: SkillFolder, found: FoundFiles, known: Known): Promise<FolderSkill[]> {
    const skills: FolderSkill[] = [];
    const { parts: byFolder, others } = partsOf(found);
    const parts = [...byFolder];
    for (const [path, reason] of others) logger.warn(`${folder.given}/${path} is left out: ${reason}.`);
    for (const path of misnamed(found.files)) {
      logger.warn(`${folder.given}/${path} is not a skill: rename the file to "${SKILL_FILE}".`);
    }
    if (parts.length === 0) {
      logger.warn(
        `The folder of skills "${folder.given}" has no skills: a skill is a folder below it with a "${SKILL_FILE}".`,
      );
    }
    for (let start = 0; start < parts.length; start += AT_A_TIME) {
      const some = parts.slice(start, start + AT_A_TIME);
      const read = await Promise.all(some.map(([path, part]) => this.#skillOf(folder, path, part)));
      for (const [index, skill] of read.entries()) {
        known.set(`${folder.given}\0${some[index]![0]}`, skill);
        if (skill.manifest) skills.push(skill);
      }
    }
    return skills;
  }

  async #skillOf(folder: SkillFolder, path: string, { files, faults }: Part): Promise<FolderSkill | LeftOut> {
    const stamp = JSON.stringify([files, faults]);
    const known = this.#known.get(`${folder.given}\0${path}`);
    if (known?.stamp === stamp) return known;
    const at = (file: string): string => `${folder.given}/${file}`;
    const leftOut = (reason: string): LeftOut => {
      logger.warn(`The skill "${at(path)}" is left out: ${reason}.`);
      return { stamp, manifest: undefined };
    };
    if (path === '') return leftOut('it is the folder of skills itself. Give the folder above it in "folders"');
    const [fault] = faults;
    if (fault) return leftOut(`${at(fault[0])}: ${fault[1]}`);
    const excess = excessOf(files);
    if (excess !== undefined) return leftOut(excess);
    try {
      const contents = new Map<string, Uint8Array>();
      for (const file of files) {
        const bytes = await folder.read(file.path, file.size).catch((error: unknown) => {
          throw error instanceof SkillFileError ? new SkillFileError(`${at(file.path)}: ${error.message}`) : error;
        });
        contents.set(file.path.slice(path.length + 1), bytes);
      }
      const made = await manifestOf(path, contents);
      if ('problem' in made) return leftOut(`${at(path)}/${SKILL_FILE}: ${made.problem}`);
      return { folder, stamp, manifest: made.manifest };
    } catch (error) {
      if (error instanceof SkillFileError) return leftOut(error.message);
      throw error;
    }
  }
}

/**
 * Reads a file of a skill.
 *
 * @throws SkillFileError when it is not the file that the skill was listed with
 */
export async function readFile({ folder }: FolderSkill, { uri, size, digest }: ManifestFile): Promise<Uint8Array> {
  const bytes = await folder.read(pathOfUri(uri), size);
  if (`sha256:${createHash('sha256').update(bytes).digest('hex')}` === digest) return bytes;
  throw new SkillFileError('its content has changed');
}

/** Names a skill in messages. */
export function originOf({ folder, manifest }: FolderSkill): string {
  return `${folder.given}/${pathOfUri(manifest.uri)}`;
}

/** The files of one skill, and what of them cannot be served. */
interface Part {
  readonly files: FoundFile[];
  readonly faults: (readonly [path: string, reason: string])[];
}

/** Returns the files of each skill, by the path of its folder, and faults that are in no skill, such as a link to one. */
function partsOf({ files, faults }: FoundFiles): { parts: Map<string, Part>; others: Part['faults'] } {
  const parts = new Map<string, Part>();
  const isManifest = (path: string): boolean => path === SKILL_FILE || path.endsWith(`/${SKILL_FILE}`);
  for (const path of [...files.map((file) => file.path), ...faults.keys()]) {
    if (isManifest(path)) parts.set(folderOf(path), { files: [], faults: [] });
  }
  // Files of a skill belong to the skills around it, too.
  const around = (path: string): Part[] => {
    const found: Part[] = [];
    for (let folder = folderOf(path); ; folder = folderOf(folder)) {
      const part = parts.get(folder);
      if (part) found.push(part);
      if (folder === '') return found;
    }
  };
  for (const file of files) for (const part of around(file.path)) part.files.push(file);
  const others: Part['faults'] = [];
  for (const fault of faults) {
    const holders = around(fault[0]);
    for (const part of holders) part.faults.push(fault);
    if (holders.length === 0) others.push(fault);
  }
  return { parts, others };
}

function folderOf(path: string): string {
  return path.slice(0, Math.max(0, path.lastIndexOf('/')));
}

/** Returns files such as `skill.md`: on some systems they would be found, on others not. */
function misnamed(files: readonly FoundFile[]): string[] {
  return files.map(({ path }) => path).filter((path) => /(?:^|\/)skill\.md$/i.test(path) && !path.endsWith(SKILL_FILE));
}
