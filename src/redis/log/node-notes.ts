import type { RedisConnection } from '../connection/redis-connection.js';
import { RedisScript } from '../connection/redis-script.js';
import { decoded, encoded } from '../redis-keys.js';

/**
 * # What concerns a node, and lies in the logs of many sessions
 *
 * Two sets per node: streams with open requests that it runs, and its readers. They lie in a slot of their own, so they are
 * written in steps of their own: before what they are about, and removed after it. A node that dies in between leaves a note
 * about nothing, never something without a note. Whoever reads the notes looks into the logs for what is true.
 *
 * What this process has noted, and not taken back, it remembers: should Redis, or somebody who took this node for dead, lose
 * it, it is noted again. A note that could not be taken back is tried again with each beat.
 */
export class NodeNotes {
  /** By key: what is to be there. */
  readonly #noted = new Map<string, Set<string>>();
  /** By key: what is to be there no longer, and may be. */
  readonly #stale = new Map<string, Set<string>>();
  readonly #underWay = new Set<Promise<void>>();

  constructor(private readonly connection: RedisConnection) {}

  async addCall(node: string, session: string, stream: string): Promise<void> {
    await this.#add(this.connection.keys.calls(node), [session, stream]);
  }

  async addReader(node: string, reader: Note): Promise<void> {
    await this.#add(this.connection.keys.readers(node), reader);
  }

  calls(node: string): Promise<Note[]> {
    return this.#members(this.connection.keys.calls(node));
  }

  readers(node: string): Promise<Note[]> {
    return this.#members(this.connection.keys.readers(node));
  }

  /** Never rejects. */
  removeCalls(node: string, notes: readonly Note[]): Promise<void> {
    return this.#remove(this.connection.keys.calls(node), notes.map(memberOf));
  }

  /** Never rejects. */
  removeReaders(node: string, notes: readonly Note[]): Promise<void> {
    return this.#remove(this.connection.keys.readers(node), notes.map(memberOf));
  }

  /** The stream has ended, or its session has, by somebody else's doing. */
  forgetCall(node: string, session: string, stream: string): void {
    const note: Note = [session, stream];
    const noted = this.#noted.get(this.connection.keys.calls(node));
    if (noted?.has(memberOf(note))) void this.removeCalls(node, [note]);
  }

  /** Takes back what could not be taken back before. Never rejects. */
  async sweep(): Promise<void> {
    await Promise.all([...this.#stale].map(([key, members]) => this.#remove(key, [...members])));
  }

  /** Writes down everything once more, for as long again. Never rejects. */
  async renew(): Promise<void> {
    const renewed = [...this.#noted].map(([key, members]) => this.#write(key, [...members]).catch(() => {}));
    await Promise.all(renewed);
  }

  /** @returns whether nothing is noted of this node any more. Never rejects */
  async settled(node: string): Promise<boolean> {
    await Promise.all(this.#underWay);
    await this.sweep();
    if (this.#noted.size > 0 || this.#stale.size > 0) return false;
    // A call that was given up may have been carried out late, after what took it back.
    const { keys } = this.connection;
    const cleared = this.connection.command('note', (client) => client.unlink(keys.calls(node), keys.readers(node)));
    return cleared.then(() => true).catch(() => false);
  }

  async #add(key: string, note: Note): Promise<void> {
    const member = memberOf(note);
    insert(this.#noted, key, member);
    erase(this.#stale, key, member);
    await this.#write(key, [member]);
  }

  async #write(key: string, members: readonly string[]): Promise<void> {
    await this.connection.run(writeNotes, key, this.connection.options.expireAfterMs, ...members);
  }

  async #members(key: string): Promise<Note[]> {
    const members = await this.connection.command('notes', (client) => client.smembers(key));
    return members.map(noteOf);
  }

  #remove(key: string, members: readonly string[]): Promise<void> {
    if (members.length === 0) return Promise.resolve();
    const removed = this.#takeBack(key, members);
    this.#underWay.add(removed);
    return removed.finally(() => this.#underWay.delete(removed));
  }

  async #takeBack(key: string, members: readonly string[]): Promise<void> {
    for (const member of members) {
      erase(this.#noted, key, member);
      insert(this.#stale, key, member);
    }
    try {
      await this.connection.command('note', (client) => client.srem(key, ...members));
      for (const member of members) erase(this.#stale, key, member);
    } catch {
      // A note about nothing does no harm until the next beat.
    }
  }
}

/** Session and stream, and the reader, if it is about one. */
export type Note = readonly [session: string, stream: string, reader?: string];

/** ARGV: life, notes. */
const writeNotes = new RedisScript(
  'note',
  `
for i = 2, #ARGV do call('SADD', KEYS[1], ARGV[i]) end
call('PEXPIRE', KEYS[1], ARGV[1])
`,
);

function memberOf(note: Note): string {
  return (note as readonly string[]).map(encoded).join(' ');
}

function noteOf(member: string): Note {
  return member.split(' ').map(decoded) as unknown as Note;
}

function insert(sets: Map<string, Set<string>>, key: string, member: string): void {
  const set = sets.get(key);
  if (set) set.add(member);
  else sets.set(key, new Set([member]));
}

function erase(sets: Map<string, Set<string>>, key: string, member: string): void {
  const set = sets.get(key);
  if (set?.delete(member) && set.size === 0) sets.delete(key);
}
