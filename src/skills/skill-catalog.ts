import { extname } from 'node:path';
import type { Resource } from '@modelcontextprotocol/server';
import type { Skill as SkillManifest } from '@modelcontextprotocol/server/ext/skills';
import type { McpContext } from '../core/calls/mcp-context.js';
import { McpDuplicateHandlerError } from '../core/handlers/handlers.errors.js';
import type { FeatureHandler } from '../core/plugins/feature-kind.js';
import { typeOfName } from '../core/handlers/results/files.js';
import { type FolderSkill, originOf } from './folder-skills.js';
import { type ServedSkill, servedFolderSkill, servedMethodSkill } from './served-skill.js';
import { pathOfUri, rootOf } from './skill-manifest.js';

/** Part of a list. */
export interface Page<T> {
  readonly items: readonly T[];
  /** The place at which the next page begins; `undefined`: there is none. */
  readonly next: string | undefined;
}

/** Where a page begins, and how much fits on it. */
export interface PagePlace {
  /** The `next` of the page before; `undefined`: the list begins. */
  readonly after: string | undefined;
  readonly size: number;
}

const DIRECTORY = 'inode/directory';

/**
 * # The skills that an endpoint serves at the moment
 *
 * One catalog serves all callers. It never changes: a new one takes its place when folders have changed. A place in a list is the URI
 * of the last skill or file before it, so that pages neither repeat nor skip what did not change meanwhile.
 *
 * Only URIs that an entry has can be read, letter by letter: no path is made of what a client sends.
 */
export class SkillCatalog {
  /** In the order of their URIs. */
  readonly #skills: readonly ServedSkill[];
  readonly #byUri: ReadonlyMap<string, ServedSkill>;
  readonly #byRoot: ReadonlyMap<string, ServedSkill>;
  /** The digests of the files of folders, by URI. */
  readonly #digests: ReadonlyMap<string, string>;
  /** No root has more slashes. */
  readonly #slashes: number;

  /** @throws McpDuplicateHandlerError for two skills with one URI */
  constructor(folders: readonly FolderSkill[], methods: readonly FeatureHandler[]) {
    const origins = new Map(methods.map(({ key, origin }) => [key, origin]));
    const twice = folders.find(({ manifest }) => origins.has(manifest.uri));
    if (twice) {
      const { uri } = twice.manifest;
      throw new McpDuplicateHandlerError('skill', uri, origins.get(uri)!, originOf(twice));
    }
    this.#digests = new Map(
      folders.flatMap(({ manifest }) => manifest.resources.map(({ uri, digest }) => [uri, digest])),
    );
    const skills = [...folders.map(servedFolderSkill), ...methods.map(servedMethodSkill)];
    this.#skills = skills.toSorted((one, other) => compare(one.uri, other.uri));
    this.#byUri = new Map(skills.map((skill) => [skill.uri, skill]));
    this.#byRoot = new Map(skills.map((skill) => [rootOf(skill.uri), skill]));
    this.#slashes = Math.max(0, ...new Set(Array.from(this.#byRoot.keys(), slashesIn)));
  }

  get(uri: string): ServedSkill | undefined {
    return this.#byUri.get(uri);
  }

  /** Returns the innermost skill that has a file or folder with this URI, if any has. */
  around(uri: string): ServedSkill | undefined {
    let innermost: ServedSkill | undefined;
    let end = uri.indexOf('/');
    // A URI may have millions of slashes.
    for (let slashes = 1; end !== -1 && slashes <= this.#slashes + 1; slashes += 1) {
      innermost = this.#byRoot.get(uri.slice(0, end)) ?? innermost;
      end = uri.indexOf('/', end + 1);
    }
    return this.#byRoot.get(uri) ?? innermost;
  }

  /** Lists the entries of the skills that a caller may read. */
  manifests(context: McpContext, place: PagePlace): Promise<Page<SkillManifest>> {
    return this.#page(context, place, async (skill) => {
      try {
        return await skill.manifest(context);
      } catch (error) {
        // A list may be partial: one skill that is denied, or fails, must not take the others with it.
        if (context.aborted) throw error;
        return undefined;
      }
    });
  }

  /** Lists the `SKILL.md` of each skill that a caller may see. */
  resources(context: McpContext, place: PagePlace): Promise<Page<Resource>> {
    return this.#page(context, place, ({ listed }) => listed);
  }

  /** Returns the URIs of files of folders that have another content in a later catalog. */
  changedIn(later: SkillCatalog): string[] {
    return [...later.#digests].flatMap(([uri, digest]) => {
      const before = this.#digests.get(uri);
      return before === undefined || before === digest ? [] : [uri];
    });
  }

  async #page<T>(
    context: McpContext,
    { after, size }: PagePlace,
    itemOf: (skill: ServedSkill) => Promise<T | undefined> | T,
  ): Promise<Page<T>> {
    const items: T[] = [];
    let at = this.#placeAfter(after);
    // As many as the page may still take run side by side, and none of a later page.
    while (at < this.#skills.length && items.length < size) {
      const some = this.#skills.slice(at, at + size - items.length);
      const listed = await Promise.all(
        some.map(async (skill) => (!skill.guarded || (await skill.visible(context)) ? itemOf(skill) : undefined)),
      );
      items.push(...listed.filter((item) => item !== undefined));
      at += some.length;
    }
    return { items, next: at < this.#skills.length ? (this.#skills[at - 1]?.uri ?? '') : undefined };
  }

  /** Returns the index of the first skill behind a URI. */
  #placeAfter(uri: string | undefined): number {
    if (uri === undefined) return 0;
    let [low, high] = [0, this.#skills.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (compare(this.#skills[middle]!.uri, uri) > 0) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}

/**
 * Returns the files and folders directly in a folder of a skill, in the order of their URIs.
 *
 * @param files of the skill
 * @returns `undefined` if it has no such folder
 */
export function childrenOf(
  uri: string,
  files: readonly { readonly uri: string; readonly size: number }[],
): Resource[] | undefined {
  const children = new Map<string, Resource>();
  for (const file of files) {
    if (!file.uri.startsWith(`${uri}/`)) continue;
    const end = file.uri.indexOf('/', uri.length + 1);
    const child = end === -1 ? file.uri : file.uri.slice(0, end);
    const name = nameOf(child);
    const about = end === -1 ? { mimeType: mediaTypeOf(name), size: file.size } : { mimeType: DIRECTORY };
    children.set(child, { uri: child, name, ...about });
  }
  return children.size === 0 ? undefined : [...children.values()].toSorted((one, other) => compare(one.uri, other.uri));
}

/** Returns the content of a file as `resources/read` has it: text if it is some, else base64. */
export function contentsOf(
  uri: string,
  bytes: Uint8Array,
): { mimeType: string } & ({ text: string } | { blob: string }) {
  const mimeType = mediaTypeOf(nameOf(uri));
  try {
    // The text must have the bytes that the digest is of.
    return { mimeType, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    return { mimeType, blob: Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64') };
  }
}

function nameOf(uri: string): string {
  const path = pathOfUri(uri);
  return path.slice(path.lastIndexOf('/') + 1);
}

/** Scripts of skills have these media types. */
const SCRIPTS: Readonly<Record<string, string>> = {
  '.css': 'text/css',
  '.js': 'text/javascript',
  '.mjs': 'text/javascript',
  '.py': 'text/x-python',
  '.sh': 'application/x-sh',
  '.ts': 'text/typescript',
};

function mediaTypeOf(name: string): string {
  const extension = extname(name).toLowerCase();
  const script = Object.hasOwn(SCRIPTS, extension) ? SCRIPTS[extension] : undefined;
  return script ?? typeOfName(name) ?? 'application/octet-stream';
}

function slashesIn(text: string): number {
  return text.split('/').length - 1;
}

/** Compares by code units, as clients do. */
function compare(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0;
}
