import {
  chmodSync,
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { deserialize, serialize } from 'node:v8';

/** A journal above this many bytes is written anew. */
const COMPACT_BYTES = 16 * 1024 ** 2;
/** The length of an entry stands in front of it, in this many bytes. */
const HEAD_BYTES = 4;
/** The process before this one has these milliseconds to begin to stop, and to end; this one looks every `LOOK_MS`. */
const SIGNALLED_MS = 500;
const STOPPING_MS = 10_000;
const LOOK_MS = 20;
/** A journal that was not written for so many milliseconds is removed: its app is not developed any more. */
const KEPT_MS = 7 * 86_400_000;
/** Follows the process id in the lock of a process that is stopping. */
const STOPPING = ' is stopping';

/** The journals that this process writes. */
const held = new Set<string>();

/**
 * # A file of entries that outlives its process
 *
 * An entry is on the disk when `append` returns, so a process that is killed in the next moment loses none. The first entry is
 * a snapshot; the others are changes since then. Entries are values of the structured clone algorithm, which unlike JSON
 * has `Infinity`, `Map` and `Set`.
 *
 *     open(path) ──▶ entries ──compact()──▶ append, append … ──close()──▶ (the file stays, for a week)
 *                                 └────────────────┴── the disk is full ──▶ (no file)
 *
 * A journal that lacks a change is worth nothing: the next process would continue from an older state. So the first entry that
 * cannot be written closes the journal and removes its file, and `failed` is called.
 *
 * A lock beside the file names the process that writes it; the next one waits for its end. Only the user of the process can
 * read the file.
 */
export class Journal {
  #file: number | undefined;
  #bytes = 0;

  private constructor(
    private readonly path: string,
    /** The entries that the file held when it was opened. */
    readonly entries: readonly unknown[],
    private readonly snapshot: () => unknown,
    private readonly failed: (error: Error) => void,
  ) {}

  /**
   * Takes over the journal at a path.
   *
   * @param snapshot the state that the next snapshot holds
   * @param now milliseconds since the epoch
   * @param failed called at most once, when no more is written
   * @throws Error when another process or app writes it, or another user could read or replace it
   */
  static async open(
    path: string,
    snapshot: () => unknown,
    now: number,
    failed: (error: Error) => void,
  ): Promise<Journal> {
    const folder = dirname(path);
    makePrivateFolder(folder);
    removeOld(folder, path, now - KEPT_MS);
    await lock(path);
    return new Journal(path, readEntries(path), snapshot, failed);
  }

  append(entry: unknown): void {
    if (this.#file === undefined) return;
    if (this.#bytes > COMPACT_BYTES) this.compact();
    this.#attempt(() => this.#write(entry));
  }

  /** Replaces the file by one with a snapshot only, in one step. */
  compact(): void {
    this.#attempt(() => {
      this.#closeFile();
      const fresh = freshOf(this.path);
      rmSync(fresh, { force: true });
      this.#file = openSync(fresh, 'wx', 0o600);
      this.#bytes = 0;
      this.#write(this.snapshot());
      renameSync(fresh, this.path);
    });
  }

  /** Closes the file: later entries are not written. Idempotent. */
  close(): void {
    if (!held.delete(this.path)) return;
    this.#closeFile();
    try {
      writeFileSync(lockOf(this.path), `${process.pid}${STOPPING}`);
    } catch {
      // The disk is full: the next process waits for the end of this one for a shorter time.
    }
  }

  #write(entry: unknown): void {
    const bytes = framed(entry);
    // A disk that becomes full takes a part.
    for (let at = 0; at < bytes.length;) at += writeSync(this.#file!, bytes, at);
    this.#bytes += bytes.length;
  }

  #attempt(write: () => void): void {
    try {
      write();
    } catch (error) {
      this.#closeFile();
      for (const file of [this.path, freshOf(this.path)]) remove(file);
      this.failed(error as Error);
    }
  }

  #closeFile(): void {
    const file = this.#file;
    this.#file = undefined;
    if (file !== undefined) closeSync(file);
  }
}

const lockOf = (path: string): string => `${path}.lock`;
const freshOf = (path: string): string => `${path}.new`;

function framed(entry: unknown): Buffer {
  const body = serialize(entry);
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(body.length);
  return Buffer.concat([head, body]);
}

/** Reads all entries that are complete: the process may have been killed while it wrote the last one. */
function readEntries(path: string): unknown[] {
  const entries: unknown[] = [];
  try {
    const bytes = readFileSync(path);
    for (let at = 0; at + HEAD_BYTES < bytes.length;) {
      const end = at + HEAD_BYTES + bytes.readUInt32BE(at);
      if (end > bytes.length) break;
      entries.push(deserialize(bytes.subarray(at + HEAD_BYTES, end)));
      at = end;
    }
  } catch {
    // There is no file, or another version of Node wrote it.
  }
  return entries;
}

/** Removes what other apps have left long ago, unless their process lives. */
function removeOld(folder: string, own: string, oldest: number): void {
  for (const name of readdirSync(folder)) {
    const file = join(folder, name);
    const journal = file.replace(/\.(?:lock|new)$/, '');
    const writtenAt = lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? Infinity;
    if (journal === own || writtenAt > oldest) continue;
    const owner = parseInt(readIfThere(lockOf(journal)), 10);
    if (!owner || !isAlive(owner)) remove(file);
  }
}

function remove(file: string): void {
  try {
    rmSync(file, { force: true });
  } catch {
    // The disk can only be read.
  }
}

/** @throws Error if another user could change what is in it */
function makePrivateFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const uid = process.getuid?.();
  // Windows has no user ids; its temporary folder belongs to the user.
  if (uid === undefined) return;
  const stats = lstatSync(folder);
  if (!stats.isDirectory() || stats.uid !== uid) throw new Error(`${folder} belongs to another user.`);
  chmodSync(folder, 0o700);
}

/**
 * Waits for the end of a process that is stopping: `nest start --watch` may start the next one before, and its port is taken
 * until then.
 *
 * @throws Error (rejects) if the file is being written by another process, or by another app of this one
 */
async function lock(path: string): Promise<void> {
  const file = lockOf(path);
  const since = performance.now();
  for (;;) {
    if (held.has(path)) throw new Error('another app of this process uses their file.');
    const text = readIfThere(file);
    const owner = parseInt(text, 10);
    // The id of this process may have been that of another one before, as in containers.
    if (!owner || owner === process.pid || !isAlive(owner)) break;
    const patienceMs = text.endsWith(STOPPING) ? STOPPING_MS : SIGNALLED_MS;
    if (performance.now() - since > patienceMs) throw new Error(`process ${owner} uses their file.`);
    await delay(LOOK_MS);
  }
  rmSync(file, { force: true });
  writeFileSync(file, String(process.pid), { flag: 'wx', mode: 0o600 });
  held.add(path);
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
  // In containers often nothing collects processes that have ended. The state follows the name, which is in parentheses.
  return !/\) Z /.test(readIfThere(`/proc/${pid}/stat`));
}
