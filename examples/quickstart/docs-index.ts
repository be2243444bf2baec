import { Inject, Injectable } from '@nestjs/common';
import MiniSearch from 'minisearch';
import { concatMap, defer, from, type Observable } from 'rxjs';
import { type Doc, DocsService } from './docs.service.js';

/** One document that was read. */
export interface IndexStep {
  readonly name: string;
  readonly done: number;
  readonly total: number;
}

/** A heading of a document, and the text below it. */
interface Section {
  readonly id: string;
  readonly name: string;
  readonly title: string;
  readonly text: string;
  /** The line of the heading, counted from 1. */
  readonly line: number;
}

/** So many sections of one document are found: a long document must not fill the answer. */
const PER_DOCUMENT = 2;

/**
 * Finds sections of the documents by their words. The index is kept in memory; before
 * each search it takes the documents that have changed since the last one.
 */
@Injectable()
export class DocsIndex {
  readonly #sections = new Map<string, Section>();
  readonly #versions = new Map<string, string>();
  readonly #words = new MiniSearch<Section>({
    fields: ['name', 'title', 'text'],
    searchOptions: {
      boost: { title: 2 },
      prefix: (word) => word.length > 2,
      fuzzy: (word) => (word.length > 4 ? 0.2 : false),
      // Its entries have the words of all pages.
      boostDocument: (id) => (/^changelog/i.test(String(id)) ? 0.1 : 1),
    },
  });

  constructor(@Inject(DocsService) private readonly docs: DocsService) {}

  /** Reads what has changed; one step for each document. Unsubscribing stops it. */
  update(): Observable<IndexStep> {
    return defer(() => this.docs.list()).pipe(
      concatMap((docs) => {
        const names = new Set(docs.map(({ name }) => name));
        for (const name of this.#versions.keys()) if (!names.has(name)) this.#drop(name);
        return from(docs).pipe(
          concatMap(async (doc, index) => {
            await this.#take(doc);
            return { name: doc.name, done: index + 1, total: docs.length };
          }),
        );
      }),
    );
  }

  /** Returns what the sections say that fit best, the best one first. */
  find(query: string, limit: number): string[] {
    const perDocument = new Map<string, number>();
    return this.#words
      .search(query)
      .filter(({ id }) => {
        const { name } = this.#sections.get(String(id))!;
        const count = perDocument.get(name) ?? 0;
        perDocument.set(name, count + 1);
        return count < PER_DOCUMENT;
      })
      .slice(0, limit)
      .map(({ id, terms }) => shown(this.#sections.get(String(id))!, terms));
  }

  async #take({ name, version }: Doc): Promise<void> {
    if (this.#versions.get(name) === version) return;
    // It may be gone by now.
    const text = await this.docs.read(name).catch(() => '');
    this.#drop(name);
    this.#versions.set(name, version);
    for (const section of sectionsOf(name, text)) {
      this.#sections.set(section.id, section);
      this.#words.add(section);
    }
  }

  #drop(name: string): void {
    this.#versions.delete(name);
    for (const section of this.#sections.values()) {
      if (section.name !== name) continue;
      this.#sections.delete(section.id);
      this.#words.remove(section);
    }
  }
}

/** Divides a document at its headings. Lines of code may begin with `#`, too. */
function sectionsOf(name: string, text: string): Section[] {
  const found: { title: string; line: number; lines: string[] }[] = [];
  let last = { title: '', line: 1, lines: [] as string[] };
  let isCode = false;
  for (const [at, line] of text.split(/\r?\n/).entries()) {
    if (line.startsWith('```')) isCode = !isCode;
    const title = isCode ? undefined : /^#{1,6} (.+)/.exec(line)?.[1];
    if (title === undefined) last.lines.push(line);
    else found.push((last = { title, line: at + 1, lines: [] }));
    if (at === 0 && title === undefined) found.push(last);
  }
  return found.map(({ title, line, lines }) => ({
    id: `${name}:${line}`,
    name,
    title,
    line,
    text: lines.join('\n'),
  }));
}

/** Returns the paragraph of a section that has most of the words, with its line. */
function shown({ name, title, text, line }: Section, words: string[]): string {
  let at = line + (title === '' ? 0 : 1);
  let best = { score: -1, at, paragraph: '' };
  for (const paragraph of text.split(/\n(?=\n)/)) {
    const start = at + (paragraph.startsWith('\n') ? 1 : 0);
    const score = words.filter((word) => paragraph.toLowerCase().includes(word)).length;
    const isText = paragraph.trim() !== '' && !paragraph.trim().startsWith('<!--');
    if (isText && score > best.score) best = { score, at: start, paragraph };
    at += paragraph.split('\n').length;
  }
  const heading = title === '' ? '' : ` (${title})`;
  const said = best.paragraph.trim().replaceAll(/\s+/g, ' ').slice(0, 300);
  return `${name}:${best.at}${heading}: ${said}`;
}
