import type { RedisConnection } from '../connection/redis-connection.js';
import { RedisScript } from '../connection/redis-script.js';
import { decoded, encoded } from '../redis-keys.js';

/**
 * # What concerns a node, and lies in the logs of many sessions
 *
 * Two sets per node: streams with open requests that it runs, and its readers. They lie in a slot of their own, so they are
 * written in steps of their own: before what they are about, and removed after it. A node that dies in between leaves a note
 * about nothing, never something without a note. Whoever reads the notes looks into the logs for what is true.
 */
export class NodeNotes {
  /** Of this process: their life is prolonged for as long as it lives. */
  readonly #own = new Set<string>();
  #prolongedAt: number;

  constructor(private readonly connection: RedisConnection) {
    this.#prolongedAt = connection.clock.now();
  }

  async addCall(node: string, session: string, stream: string): Promise<void> {
    await this.#add(this.connection.keys.calls(node), [session, stream]);
  }

  async addReader(node: string, reader: readonly [session: string, stream: string, reader: string]): Promise<void> {
    await this.#add(this.connection.keys.readers(node), reader);
  }

  calls(node: string): Promise<Note[]> {
    return this.#members(this.connection.keys.calls(node));
  }

  readers(node: string): Promise<Note[]> {
    return this.#members(this.connection.keys.readers(node));
  }

  removeCalls(node: string, notes: readonly (readonly string[])[]): Promise<void> {
    return this.#remove(this.connection.keys.calls(node), notes);
  }

  removeReaders(node: string, notes: readonly (readonly string[])[]): Promise<void> {
    return this.#remove(this.connection.keys.readers(node), notes);
  }

  /** To be called while this node lives; does something now and then. */
  prolong(): void {
    const now = this.connection.clock.now();
    const lifeMs = this.connection.options.expireAfterMs;
    if (now - this.#prolongedAt < lifeMs / 8) return;
    this.#prolongedAt = now;
    for (const key of this.#own) {
      this.connection.command('prolong', (client) => client.pexpire(key, lifeMs)).catch(() => {});
    }
  }

  async #add(key: string, note: readonly string[]): Promise<void> {
    this.#own.add(key);
    await this.connection.run(addNote, key, this.connection.options.expireAfterMs, note.map(encoded).join(' '));
  }

  async #members(key: string): Promise<Note[]> {
    const members = await this.connection.command('notes', (client) => client.smembers(key));
    return members.map((member) => member.split(' ').map(decoded) as unknown as Note);
  }

  /** Never rejects: a note about nothing does no harm. */
  async #remove(key: string, notes: readonly (readonly string[])[]): Promise<void> {
    if (notes.length === 0) return;
    const members = notes.map((note) => note.map(encoded).join(' '));
    await this.connection.command('note', (client) => client.srem(key, ...members)).catch(() => {});
  }
}

/** ARGV: life, note. */
const addNote = new RedisScript(
  'note',
  `
call('SADD', KEYS[1], ARGV[2])
call('PEXPIRE', KEYS[1], ARGV[1])
`,
);

/** Session and stream, and the reader, if it is about one. */
export type Note = [session: string, stream: string, reader?: string];
