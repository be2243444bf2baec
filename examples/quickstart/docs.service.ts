import { readFile, readdir, realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, posix, relative } from 'node:path';
import { Inject, Injectable, NotFoundException } from '@nestjs/common';
import { concatMap, defer, from, type Observable } from 'rxjs';

/** The injection token of the folder that is served. */
export const DOCS_DIR = Symbol('DOCS_DIR');

/** Where documents are, relative to {@link DOCS_DIR}. */
const FOLDERS = ['.', 'docs'];

export interface Doc {
  /** Such as `README.md` or `docs/sessions.md`. */
  readonly name: string;
  readonly path: string;
  /** Differs after each change of the file. */
  readonly version: string;
}

/** One document that was searched. */
export interface SearchStep {
  readonly name: string;
  /** The lines that match, each with its number. */
  readonly matches: readonly string[];
  readonly done: number;
  readonly total: number;
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

  /**
   * Looks for a text, whatever its case; one step per document. Unsubscribing stops it.
   */
  search(text: string): Observable<SearchStep> {
    const needle = text.toLowerCase();
    const step = async (
      { name, path }: Doc,
      index: number,
      total: number,
    ): Promise<SearchStep> => {
      const lines = (await readFile(path, 'utf8')).split('\n');
      const matches = lines.flatMap((line, at) =>
        line.toLowerCase().includes(needle) ? [`${name}:${at + 1}: ${line.trim()}`] : [],
      );
      return { name, matches, done: index + 1, total };
    };
    return defer(() => this.list()).pipe(
      concatMap((docs) =>
        from(docs).pipe(concatMap((doc, index) => step(doc, index, docs.length))),
      ),
    );
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
