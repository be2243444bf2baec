import { constants, type Dirent } from 'node:fs';
import { lstat, open, readdir, realpath, stat } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { McpOptionError } from '../core/common/options.js';
import { SKILL_FILE } from './skill-kind.js';
import { shown } from '../core/protocol/errors.js';

/** Hosts need not load a skill with more files, or more bytes in all of them (SEP-2640, Limits). */
const MAX_FILES = 512;
export const MAX_BYTES = 16 * 1024 ** 2;

/** A folder with more files and folders below it is none of skills, such as that of the whole project. */
const MAX_ENTRIES = 100_000;

/** A symbolic link, or a pipe, which would wait for a writer, is not opened. Windows has neither flag. */
const OPEN = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** A file below a folder of skills. */
export interface FoundFile {
  /** The path below the folder, with `/`. */
  readonly path: string;
  readonly size: number;
  /** Differs when the file was changed. */
  readonly stamp: string;
}

/** What is below a folder of skills. */
export interface FoundFiles {
  readonly files: readonly FoundFile[];
  /** What is not served, by path, with the reason. */
  readonly faults: ReadonlyMap<string, string>;
}

/** A file cannot be served; its message says why, and does not name it. */
export class SkillFileError extends Error {
  override readonly name = 'SkillFileError';
}

/**
 * # A folder of which files are read
 *
 * Nothing outside of the folder is read, also if others may write into it: symbolic links are not followed, at any place below it, and a
 * path is one that {@link find} has found, never one that a client sent. Hidden files, whose names begin with a dot, do not exist.
 * A file is never read beyond the size that it had when it was opened.
 */
export class SkillFolder {
  private constructor(
    /** The folder as the app gave it, for messages. */
    readonly given: string,
    /** The folder itself, where links lead to. */
    private readonly root: string,
  ) {}

  /** Opens a folder. @throws McpOptionError */
  static async open(given: string): Promise<SkillFolder> {
    const path = resolve(given);
    const refusal = (reason: string, cause?: unknown): Error =>
      Object.assign(new McpOptionError('folders', `The folder of skills ${shown(given)} ${reason}`), { cause });
    try {
      const root = await realpath(path);
      if ((await stat(root)).isDirectory()) return new SkillFolder(given, root);
    } catch (error) {
      throw refusal(
        `cannot be read: ${(error as Error).message}. A relative path begins at the working directory.`,
        error,
      );
    }
    throw refusal(`is not a folder, but the file ${shown(path)}. Give the folder that has the folders of the skills.`);
  }

  /** Finds all files, in the order of their paths. @throws Error when the folder itself cannot be read */
  async find(): Promise<FoundFiles> {
    const files: FoundFile[] = [];
    const faults = new Map<string, string>();
    let entries = 0;
    const look = async (folder: string): Promise<void> => {
      const found = await readdir(join(this.root, folder), { withFileTypes: true });
      for (const entry of found.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
        if (entry.name.startsWith('.')) continue;
        if (++entries > MAX_ENTRIES) {
          const text = `The folder of skills ${shown(this.given)} has more than ${MAX_ENTRIES} files and folders. Give the folder that has the folders of the skills, and nothing else.`;
          throw new McpOptionError('folders', text);
        }
        const path = folder === '' ? entry.name : `${folder}/${entry.name}`;
        try {
          if (entry.isDirectory()) await look(path);
          else if (entry.isFile()) files.push(await this.#found(path));
          else
            faults.set(path, `it is ${kindOf(entry)}, which is not followed. Copy what it stands for into its place`);
        } catch (error) {
          if (error instanceof McpOptionError) throw error;
          // What was removed meanwhile is not there.
          if (codeOf(error) !== 'ENOENT') faults.set(path, (error as Error).message);
        }
      }
    };
    await look('');
    return { files, faults };
  }

  async #found(path: string): Promise<FoundFile> {
    const { size, mtimeMs, ino } = await lstat(join(this.root, path));
    return { path, size, stamp: `${ino} ${size} ${mtimeMs}` };
  }

  /**
   * Reads a file that {@link find} has found.
   *
   * @param size the file has so many bytes
   * @throws SkillFileError when it is another one now
   */
  async read(path: string, size: number): Promise<Uint8Array> {
    const full = join(this.root, path);
    const file = await open(full, OPEN).catch((error: unknown) => {
      throw new SkillFileError(`it cannot be opened (${codeOf(error) ?? String(error)})`, { cause: error });
    });
    try {
      const opened = await file.stat();
      if (!opened.isFile()) throw new SkillFileError('it is no longer a file');
      // A folder above it may have become a link meanwhile.
      const there = (await realpath(full)) === full ? await stat(full) : undefined;
      if (there?.ino !== opened.ino || there.dev !== opened.dev) throw new SkillFileError('a link leads to it');
      if (opened.size !== size) throw new SkillFileError('its size has changed');
      const bytes = Buffer.alloc(size);
      let end = 0;
      for (let read = -1; read !== 0 && end < size; end += read) {
        ({ bytesRead: read } = await file.read(bytes, end, size - end, end));
      }
      if (end < size) throw new SkillFileError('its size has changed');
      return bytes;
    } catch (error) {
      if (error instanceof SkillFileError) throw error;
      throw new SkillFileError(`it cannot be read (${codeOf(error) ?? String(error)})`, { cause: error });
    } finally {
      await file.close();
    }
  }
}

/**
 * Returns why a skill with these files is not served, if so.
 *
 * @param files of the skill
 */
export function excessOf(files: readonly { readonly size: number }[]): string | undefined {
  const bytes = files.reduce((sum, { size }) => sum + size, 0);
  if (files.length > MAX_FILES)
    return `it has ${files.length} files, more than ${MAX_FILES}, which clients need not load`;
  if (bytes > MAX_BYTES) return `its files have ${bytes} bytes, more than ${MAX_BYTES}, which clients need not load`;
  return undefined;
}

/**
 * Reads the files of one skill, for a method with `@Skill()`: its guards then decide who gets the skill. Links and hidden files are
 * refused and left out as in the option `folders`.
 *
 * ```diff
 * +@Skill({ name: 'refunds' })
 * +@UseGuards(SupportStaff)
 *  refunds(): Promise<Record<string, Uint8Array>> {
 *    return readSkillFolder('internal/refunds');
 *  }
 * ```
 *
 * @param folder the folder with the `SKILL.md`; a relative path begins at the working directory of the process. Never make it from
 *   the arguments of a call
 * @returns the bytes of the files by path below the folder
 * @throws Error for a folder without `SKILL.md`, with a link, or with more than 512 files or 16 MiB
 * @publicApi
 */
export async function readSkillFolder(folder: string): Promise<Record<string, Uint8Array>> {
  const opened = await SkillFolder.open(folder);
  const { files, faults } = await opened.find();
  const [fault] = faults;
  const has = files.some(({ path }) => path === SKILL_FILE);
  const problem = fault ? `${fault[0]}: ${fault[1]}` : has ? excessOf(files) : `it has no "${SKILL_FILE}"`;
  if (problem !== undefined) throw new Error(`The folder ${shown(folder)} is not a skill: ${problem}.`);
  const read = files.map(async ({ path, size }): Promise<[string, Uint8Array]> => [
    path,
    await opened.read(path, size),
  ]);
  return Object.fromEntries(await Promise.all(read));
}

function kindOf(entry: Dirent): string {
  return entry.isSymbolicLink() ? 'a symbolic link' : 'no regular file';
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException | undefined)?.code;
}
