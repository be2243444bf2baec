import { createReadStream } from 'node:fs';
import { basename, extname } from 'node:path';
import { addAbortSignal, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { Annotations, ContentBlock, ResourceLink, TextContent } from '@modelcontextprotocol/server';
import { StreamableFile } from '@nestjs/common';
import { isObject } from '../../protocol/json-rpc.js';
import { McpHandlerResultError } from '../handlers.errors.js';

/**
 * The bytes of a file come from one of these. A text is a path on this machine, or as a `URL` one of `file:` or `data:`.
 * Never make a path from the arguments of a call: the caller could read any file of the process.
 *
 * @internal
 */
export type FileSource =
  Uint8Array | ArrayBuffer | Blob | Readable | ReadableStream<Uint8Array> | StreamableFile | string | URL;

/** Describes a file beside its bytes. @internal */
export interface FileOptions {
  /** @default by the source, its name, or its first bytes */
  mimeType?: string;
  /** Says whom it is for, and how important it is. @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#annotations */
  annotations?: Annotations;
}

/** Describes an embedded file. @internal */
export interface EmbeddedFileOptions extends FileOptions {
  /** The name of the file, with its extension. @default that of the path */
  name?: string;
  /** Names the file for clients; one of a resource of this server lets them read it again. @default `attachment:///<name>` */
  uri?: string;
}

type FileKind = 'image' | 'audio' | 'file';

/**
 * Interceptors such as `ClassSerializerInterceptor` copy what stands in an array, field by field. A file has this field
 * alone, by which it is found again; they would call the methods of its stream.
 */
const MARK = 'nestjs-mcp-streamable:file';
const FILES = new WeakMap<symbol, McpFile>();

/**
 * A file that a handler returns is made by `image()`, `audio()` and `file()`. It is read when the result is made, and a
 * larger one than `maxResultBytes` is not read to its end. From a route it is sent as any `StreamableFile`.
 *
 * @publicApi
 */
export class McpFile extends StreamableFile {
  /** @internal */
  readonly kind: FileKind;
  /** @internal */
  readonly about: EmbeddedFileOptions;
  readonly #source: FileSource;
  #opened = false;

  /** @internal */
  constructor(kind: FileKind, source: FileSource, about: EmbeddedFileOptions) {
    const { mimeType, name, length } = describe(source);
    const type = about.mimeType ?? mimeType ?? typeOfName(about.name ?? name);
    const known = { ...about, ...(type && { mimeType: type }), ...(!about.name && name && { name }) };
    // The source is opened when it is read: a handler may throw before it returns the file.
    super(streamOf(source), {
      ...(type && { type }),
      ...(length !== undefined && { length }),
      ...(known.name && { disposition: `inline; filename*=UTF-8''${encodeURIComponent(known.name)}` }),
    });
    this.kind = kind;
    this.about = known;
    this.#source = source;
    for (const field of Object.keys(this)) Object.defineProperty(this, field, { enumerable: false });
    const mark = Symbol(kind);
    FILES.set(mark, this);
    Object.defineProperty(this, MARK, { value: mark, enumerable: true });
  }

  /** Opens the source anew, unless it is a stream: a handler may keep the file and return it again. */
  override getStream(): Readable {
    const isFirst = !this.#opened;
    this.#opened = true;
    return isFirst || isStream(this.#source) ? super.getStream() : streamOf(this.#source);
  }

  /** Returns the text that logs show. */
  toJSON(): string {
    written++;
    return `${this.kind}(…)`;
  }
}

/** Counts the files that were written as JSON. */
let written = 0;

/** Returns the JSON of a value. @throws McpHandlerResultError for a file inside an object of the app: JSON has nothing of it */
export function jsonWithoutFiles(value: unknown): string | undefined {
  const before = written;
  const text = JSON.stringify(value) as string | undefined;
  if (written === before) return text;
  throw new McpHandlerResultError(
    'A handler returned image(…), audio(…) or file(…) inside an object. Return it as content: alone, in an array beside text(…), or in "content" beside "structuredContent".',
  );
}

/**
 * Returns an image, as content that the model sees.
 *
 * ```diff
 * +@Tool({ name: 'chart', description: 'Draws the sales of a year' })
 *  async chart() {
 *    return [text('Sales of 2026'), image(await this.charts.png(2026))];
 *  }
 * ```
 *
 * @param source bytes, a stream, a `StreamableFile`, a path or a URL
 * @throws TypeError for any other source. When the result is made: McpHandlerResultError for a file that cannot be read, or is no image
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#image-content
 * @publicApi
 */
export function image(source: FileSource, options: FileOptions = {}): McpFile {
  return new McpFile('image', source, options);
}

/**
 * Returns a recording, as content for the model.
 *
 * @param source the same as for {@link image}
 * @throws as {@link image}
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#audio-content
 * @publicApi
 */
export function audio(source: FileSource, options: FileOptions = {}): McpFile {
  return new McpFile('audio', source, options);
}

/**
 * Returns any file as an embedded resource: as text if it is one, otherwise as bytes.
 *
 * @param source the same as for {@link image}
 * @throws as {@link image}
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#embedded-resources
 * @publicApi
 */
export function file(source: FileSource, options: EmbeddedFileOptions = {}): McpFile {
  return new McpFile('file', source, options);
}

/**
 * Returns a link to a resource that the client may read later, instead of its content.
 *
 * @param uri the URI of a resource of this server, or one that the client can fetch
 * @param options its `name`, by default the last part of the URI, and its other fields
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#resource-links
 * @publicApi
 */
export function resourceLink(uri: string, options: Partial<Omit<ResourceLink, 'type' | 'uri'>> = {}): ResourceLink {
  const name = options.name ?? uri.split(/[/:]/).findLast((part) => part !== '') ?? uri;
  return { ...options, type: 'resource_link', uri, name };
}

/**
 * Returns a text, for results that have several parts; alone, a string is enough.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#text-content
 * @publicApi
 */
export function text(content: string, options: Pick<FileOptions, 'annotations'> = {}): TextContent {
  return { ...options, type: 'text', text: content };
}

/** Stands in place of a result whose files are larger than it may be. */
export class TooManyBytes extends Error {
  constructor(
    /** Counts the bytes of the files so far. */
    readonly read: number,
  ) {
    super(`The files of a result have ${read} bytes or more.`);
  }
}

interface Reading {
  /** Decides the form: resources have contents, everything else has content blocks. */
  readonly as: 'blocks' | 'contents';
  readonly maxBytes: number;
  readonly signal: () => AbortSignal;
}

/** These fields of results hold content. */
const HOLDERS = ['content', 'contents', 'messages'];
/** A result, its messages, one message, its content and one block are so many levels. */
const DEEPEST = 4;

/**
 * Reads the files of a result, and encodes the bytes in its content.
 *
 * @returns the value itself if it has neither; TooManyBytes if they are more than the maximum
 * @throws (rejects) McpHandlerResultError for a file that cannot be read, or whose type is not known
 */
export function withFilesRead(value: unknown, reading: Reading): unknown {
  return hasFiles(value, 0) ? new FileReader(reading).result(value) : value;
}

function hasFiles(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null || depth > DEEPEST) return false;
  if (fileIn(value) || hasBytes(value as Record<string, unknown>)) return true;
  const parts = Array.isArray(value) ? value : HOLDERS.map((name) => (value as Record<string, unknown>)[name]);
  for (const part of parts) if (hasFiles(part, depth + 1)) return true;
  return false;
}

/** Closes files that were not read: they would stay open. */
function closeFiles(value: unknown, depth: number): void {
  if (!hasFiles(value, depth)) return;
  const found = fileIn(value);
  if (found instanceof StreamableFile) found.getStream().destroy();
  const parts = Array.isArray(value) ? value : HOLDERS.map((name) => (value as Record<string, unknown>)[name]);
  for (const part of parts) closeFiles(part, depth + 1);
}

/** Returns the file that a value is, or is a copy of. */
function fileIn(value: unknown): StreamableFile | Blob | undefined {
  if (value instanceof Blob) return value;
  const { [MARK]: mark } = (value ?? {}) as { readonly [MARK]?: unknown };
  const marked = typeof mark === 'symbol' ? FILES.get(mark) : undefined;
  return marked ?? (value instanceof StreamableFile ? value : undefined);
}

const isBytes = (value: unknown): value is Uint8Array | ArrayBuffer | Blob =>
  value instanceof Uint8Array || value instanceof ArrayBuffer || value instanceof Blob;

/** Returns whether it is a content block, or contents, with bytes where the protocol has base64. */
function hasBytes({ type, data, blob, resource }: Record<string, unknown>): boolean {
  if (type === 'image' || type === 'audio') return isBytes(data);
  return isBytes(blob) || (type === 'resource' && isObject(resource) && isBytes(resource['blob']));
}

class FileReader {
  #bytes = 0;

  constructor(private readonly reading: Reading) {}

  async result(value: unknown): Promise<unknown> {
    try {
      return await this.replaced(value);
    } catch (error) {
      closeFiles(value, 0);
      if (error instanceof TooManyBytes) return error;
      throw error;
    }
  }

  async replaced(value: unknown): Promise<unknown> {
    const found = fileIn(value);
    if (found) return this.#file(found instanceof Blob ? fileOfType(found, found.type) : found);
    if (Array.isArray(value)) return this.#each(value);
    if (!isObject(value)) return value;
    if (hasBytes(value)) return this.#encoded(value);
    const held = HOLDERS.filter((name) => hasFiles(value[name], 1));
    if (held.length === 0) return value;
    const fields = await this.#each(held.map((name) => value[name]));
    return { ...value, ...Object.fromEntries(held.map((name, at) => [name, fields[at]])) };
  }

  /** Reads one after the other, so that no more than one is read beyond the maximum. */
  async #each(values: readonly unknown[]): Promise<unknown[]> {
    const replaced: unknown[] = [];
    for (const value of values) replaced.push(await this.replaced(value));
    return replaced;
  }

  async #encoded(block: Record<string, unknown>): Promise<unknown> {
    const { type, data, blob, resource, mimeType } = block;
    if (isObject(resource)) return { ...block, resource: { ...resource, blob: await this.#base64(resource['blob']) } };
    if (blob !== undefined) return { ...block, blob: await this.#base64(blob) };
    const bytes = await this.#read(new McpFile('file', data as Uint8Array, {}));
    return { ...block, mimeType: mimeType ?? mediaTypeOf(type as FileKind, undefined, bytes), data: this.#sent(bytes) };
  }

  async #base64(source: unknown): Promise<string> {
    return this.#sent(await this.#read(new McpFile('file', source as Uint8Array, {})));
  }

  async #file(given: StreamableFile): Promise<unknown> {
    const one = given instanceof McpFile ? given : fileOfType(given, given.getHeaders().type);
    const { kind, about } = one;
    const { annotations } = about;
    const bytes = await this.#read(one);
    const mimeType = mediaTypeOf(kind, about.mimeType, bytes);
    const asText = kind === 'file' || this.reading.as === 'contents' ? textOf(bytes, mimeType) : undefined;
    const body = asText === undefined ? { blob: this.#sent(bytes) } : { text: asText };
    if (this.reading.as === 'contents') return { ...(about.uri && { uri: about.uri }), mimeType, ...body };
    if (kind !== 'file') return { type: kind, data: body.blob, mimeType, ...(annotations && { annotations }) };
    const uri = about.uri ?? `attachment:///${encodeURIComponent(about.name ?? 'file')}`;
    return { type: 'resource', resource: { uri, mimeType, ...body }, ...(annotations && { annotations }) };
  }

  #sent(bytes: Buffer): string {
    return bytes.toString('base64');
  }

  /** Reads a file. @throws (rejects) TooManyBytes before it has read much more than the maximum */
  async #read(one: StreamableFile): Promise<Buffer> {
    const { maxBytes, signal } = this.reading;
    const stream = one.getStream();
    const { length = 0 } = one.getHeaders();
    if (stream.readableEnded || (stream.destroyed && !stream.errored)) {
      throw new McpHandlerResultError(
        'A handler returned a file whose stream has been read before. Make a stream for each call, or give the bytes or the path.',
      );
    }
    try {
      this.#count(length, maxBytes);
      const counted = async function* (this: FileReader): AsyncGenerator<Buffer> {
        let read = 0;
        for await (const chunk of addAbortSignal(signal(), stream) as AsyncIterable<Buffer>) {
          // The length may have been unknown.
          read += chunk.length;
          if (read > length) this.#count(Math.min(chunk.length, read - length), maxBytes);
          yield chunk;
        }
      };
      return await buffer(counted.call(this));
    } catch (error) {
      if (error instanceof TooManyBytes || signal().aborted) throw error;
      throw new McpHandlerResultError('A file that a handler returned could not be read; see the cause.', {
        cause: error,
      });
    } finally {
      stream.destroy();
    }
  }

  /** Counts bytes. Encoded they are more, which the limit of the whole result finds. */
  #count(length: number, maxBytes: number): void {
    this.#bytes += length;
    if (this.#bytes > maxBytes) throw new TooManyBytes(this.#bytes);
  }
}

/** Matches URLs, and not every text with a colon: `C:\a.png` and `notes:today.txt` are paths. */
const IS_URL = /^(?:data|file|https?):/i;

/** Returns the file of a source that does not say how it is shown: its type decides. */
function fileOfType(source: StreamableFile | Blob, type: string): McpFile {
  const [family] = type.split('/');
  return new McpFile(family === 'image' || family === 'audio' ? family : 'file', source, {});
}

/** Returns what a source declares about itself. @throws TypeError for a source of another kind */
function describe(source: FileSource): EmbeddedFileOptions & { length?: number } {
  if (source instanceof Uint8Array || source instanceof ArrayBuffer) return { length: source.byteLength };
  if (source instanceof Blob) {
    const name = source instanceof File ? source.name : undefined;
    return { length: source.size, ...(name && { name }), ...(source.type && { mimeType: source.type }) };
  }
  if (source instanceof StreamableFile) {
    const { type, disposition, length } = source.getHeaders();
    const name = nameIn(disposition);
    return {
      ...(type !== OCTETS && { mimeType: type }),
      ...(length !== undefined && { length }),
      ...(name && { name }),
    };
  }
  if (typeof source === 'string' && !IS_URL.test(source)) return { name: basename(source) };
  if (typeof source === 'string' || source instanceof URL) return describeUrl(new URL(source));
  if (isStream(source)) return {};
  throw new TypeError(
    `A file cannot be made of ${source === null ? 'null' : `a value of type ${typeof source}`}. Give bytes (Buffer, Uint8Array, Blob), a stream, a StreamableFile, a path, or a URL of "file:" or "data:".`,
  );
}

function describeUrl(url: URL): EmbeddedFileOptions {
  if (url.protocol === 'file:') return { name: basename(fileURLToPath(url)) };
  if (url.protocol === 'data:') return { mimeType: /^[^;,]+/.exec(url.pathname)?.[0] ?? 'text/plain' };
  throw new TypeError(
    `A file cannot be made from a URL with "${url.protocol}": this server would fetch it on behalf of the caller that chose it. Fetch it yourself and give its bytes, or return resourceLink(url).`,
  );
}

function nameIn(disposition: string | string[] | undefined): string | undefined {
  const found = /filename\*?=(?:UTF-8'')?"?([^";]+)/i.exec(String(disposition ?? ''))?.[1];
  return found && basename(decodeURIComponentIfPossible(found));
}

function decodeURIComponentIfPossible(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}

const isStream = (source: FileSource): source is Readable | ReadableStream<Uint8Array> =>
  source instanceof Readable || source instanceof ReadableStream;

function streamOf(source: FileSource): Readable {
  if (source instanceof StreamableFile) return source.getStream();
  // The source may fail before its turn to be read; without a listener that ends the process.
  if (source instanceof Readable) return source.on('error', () => {});
  if (source instanceof ReadableStream) return Readable.fromWeb(source as Parameters<typeof Readable.fromWeb>[0]);
  return Readable.from(chunks(source), { objectMode: false });
}

async function* chunks(source: Uint8Array | ArrayBuffer | Blob | string | URL): AsyncGenerator<Uint8Array> {
  if (source instanceof Uint8Array) yield source;
  else if (source instanceof ArrayBuffer) yield new Uint8Array(source);
  else if (source instanceof Blob) yield* source.stream();
  else {
    const url = source instanceof URL || IS_URL.test(source) ? new URL(source) : undefined;
    if (url?.protocol === 'data:') yield* (await fetch(url)).body!;
    else yield* createReadStream(url ?? source) as AsyncIterable<Buffer>;
  }
}

const OCTETS = 'application/octet-stream';

/** Maps extensions of files to media types. */
const TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
  avif: 'image/avif',
  bmp: 'image/bmp',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  m4a: 'audio/mp4',
  aac: 'audio/aac',
  pdf: 'application/pdf',
  json: 'application/json',
  xml: 'application/xml',
  zip: 'application/zip',
  txt: 'text/plain',
  log: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  yaml: 'application/yaml',
  yml: 'application/yaml',
};

/** Returns the media type of a file by the extension of its name. @returns `undefined` for an unknown one */
export function typeOfName(name: string | undefined): string | undefined {
  const extension = extname(name ?? '')
    .slice(1)
    .toLowerCase();
  return Object.hasOwn(TYPES, extension) ? TYPES[extension] : undefined;
}

/** Files begin with these bytes, read as Latin-1. */
const BEGINNINGS: readonly (readonly [RegExp, string])[] = [
  [/^\x89PNG\r\n/, 'image/png'],
  [/^\xFF\xD8\xFF/, 'image/jpeg'],
  [/^GIF8[79]a/, 'image/gif'],
  [/^RIFF[^]{4}WEBP/, 'image/webp'],
  [/^[^]{4}ftypavif/, 'image/avif'],
  [/^BM/, 'image/bmp'],
  [/^\s*(?:<\?xml[^>]*>\s*)?<svg[\s>]/, 'image/svg+xml'],
  [/^RIFF[^]{4}WAVE/, 'audio/wav'],
  [/^(?:ID3|\xFF[\xFB\xF3\xF2])/, 'audio/mpeg'],
  [/^OggS/, 'audio/ogg'],
  [/^fLaC/, 'audio/flac'],
  [/^[^]{4}ftypM4A/, 'audio/mp4'],
  [/^%PDF-/, 'application/pdf'],
  // oxlint-disable-next-line no-control-regex -- that is how they begin
  [/^PK\x03\x04/, 'application/zip'],
];

/** Returns the media type of a file. @throws McpHandlerResultError for an image, or a recording, of no such type */
function mediaTypeOf(kind: FileKind, declared: string | undefined, bytes: Buffer): string {
  const beginning = bytes.toString('latin1', 0, 256);
  const type = declared ?? BEGINNINGS.find(([pattern]) => pattern.test(beginning))?.[1];
  if (kind === 'file') return type ?? (textOf(bytes, 'text/plain') === undefined ? OCTETS : 'text/plain');
  if (type?.startsWith(`${kind}/`)) return type;
  const problem = type ? `is of the type "${type}"` : 'does not begin like a file of a known type';
  throw new McpHandlerResultError(
    `A handler returned content of the type "${kind}" that ${problem}. Say what it is, as in ${kind}(bytes, { mimeType: "${kind}/…" }); for other files use file(bytes, { name }).`,
  );
}

const IS_TEXT = /^text\/|^application\/(?:json|xml|yaml|javascript)\b|\+(?:json|xml)\b/;

/** Returns the text of a file. @returns `undefined` for a file that is no text, or not in UTF-8 */
function textOf(bytes: Buffer, mimeType: string): string | undefined {
  if (!IS_TEXT.test(mimeType) || mimeType.startsWith('image/')) return undefined;
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** A method of a handler may return these values as content. @publicApi */
export type McpContent = ContentBlock | McpFile;
