import { readFile, readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, posix, relative } from 'node:path';
import { Inject, Injectable, NotFoundException } from '@nestjs/common';

/** The injection token of the folder that is served. */
export const DOCS_DIR = Symbol('DOCS_DIR');

/** Where documents are, relative to {@link DOCS_DIR}. */
export const FOLDERS = ['.', 'docs'];

export interface Doc {
  /** Such as `README.md` or `docs/sessions.md`. */
  readonly name: string;
  readonly path: string;
  /** Differs after each change of the file. */
  readonly version: string;
}

/** The Markdown files of a folder, as they are at this moment. */
@Injectable()
export class DocsService {
  constructor(@Inject(DOCS_DIR) readonly root: string) {}

  /** All documents, by name. */
  async list(): Promise<Doc[]> {
    const names = await Promise.all(FOLDERS.map((folder) => this.#namesIn(folder)));
    const docs = await Promise.all(names.flat().map((name) => this.#find(name)));
    return docs
      .filter((doc) => doc !== undefined)
      .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  }

  /** @throws NotFoundException when there is no document of that name */
  async read(name: string): Promise<string> {
    const doc = await this.#find(name);
    if (!doc) throw new NotFoundException(`There is no document "${name}".`);
    return readFile(doc.path, 'utf8');
  }

  async #namesIn(folder: string): Promise<string[]> {
    const files = await readdir(join(this.root, folder)).catch(() => []);
    return files.map((file) => posix.join(folder, file));
  }

  /**
   * The only way from a name to a file. Names come from outside: what is not a Markdown
   * file in one of the folders, or is
   * a link that leads out of them, does not exist.
   */
  async #find(name: string): Promise<Doc | undefined> {
    if (!name.endsWith('.md') || !FOLDERS.includes(posix.dirname(name))) return undefined;
    try {
      const [root, path] = await Promise.all([
        realpath(this.root),
        realpath(join(this.root, name)),
      ]);
      const file = await stat(path);
      if (!file.isFile() || !isWithin(root, path)) return undefined;
      return { name, path, version: `${file.mtimeMs}/${file.size}` };
    } catch {
      return undefined;
    }
  }
}

function isWithin(root: string, path: string): boolean {
  const way = relative(root, path);
  return !way.startsWith('..') && !isAbsolute(way);
}
