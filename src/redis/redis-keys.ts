import { FORMATS } from '../core/common/formats.js';

/** Only the empty id has this code. */
const EMPTY = '%';
/** Matches ids that are their own code. */
const PLAIN = /^[A-Za-z0-9_.-]+$/;

/**
 * Encodes an id of a client as part of a key. Different ids have different codes, of ASCII without braces, colons,
 * patterns and line breaks: a session id cannot break out of its hash tag, and lone surrogates stay distinct.
 */
export function encoded(id: string): string {
  if (PLAIN.test(id)) return id;
  // JSON escapes lone surrogates, over which `encodeURIComponent` would fail.
  const code = encodeURIComponent(JSON.stringify(id).slice(1, -1));
  return code.length === 0 ? EMPTY : code.replace(/[!'()*~]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}

/** Returns the id of a code that {@link encoded} made. */
export function decoded(code: string): string {
  if (code === EMPTY) return '';
  return PLAIN.test(code) ? code : (JSON.parse(`"${decodeURIComponent(code)}"`) as string);
}

/**
 * # The names of everything in Redis
 *
 *     mcp:s2:{<session>}:session         hash    the record of a session
 *     mcp:s2:{<session>}:log             hash    its event log: a sum, and the head of each stream
 *     mcp:s2:{<session>}:streams         zset    the streams; score: when they are forgotten, +inf while they are open
 *     mcp:s2:{<session>}:events:<stream> stream  the events that are kept, the newest last
 *     mcp:s2:{:sessions}:…                       which sessions there are: see session.scripts.ts
 *     mcp:s2:{:sessions:<n>/<of>}:…              the same, spread over `sessionSlots`
 *     mcp:s2:{:node:<node>}:calls        set     streams with open requests of a node
 *
 *     mcp:{:state:<owner>}:…                     state of one owner: see redis-state-store.ts
 *     mcp:{:tasks}:…                             tasks: see task.scripts.ts
 *     mcp:{:bus}:…                               which nodes are alive, which have died: see heartbeat.ts
 *     mcp:{:probe:<n>}:probe:<type>              what a health check writes, for a moment: see probe.ts
 *
 * `s2` is the format of sessions ({@link FORMATS}): a version with another number uses none of these keys. Of states and tasks the
 * values have a number, and the names never change: a value under another name would be lost.
 *
 * The braces hold the hash tag: keys with one tag lie on one node of a Redis Cluster, and no script touches keys of two
 * tags. Codes have no colon, so `{:…}` is the tag of no session.
 *
 * Channels: `mcp:<db>:node:<node>`, `mcp:<db>:all`, `mcp:<db>:gaps`, `mcp:<db>:probe`. Channels are shared by all databases of a
 * Redis, and by nodes of all formats.
 */
export class RedisKeys {
  /** The prefix of all keys of sessions. */
  readonly #ofSessions: string;
  readonly tasks: string;
  readonly bus: string;
  readonly everyone: string;
  readonly gaps: string;
  readonly probeChannel: string;
  /** The channel of a node begins with it; the code of the node follows. */
  readonly nodeChannel: string;

  /**
   * @param prefix of all keys and channels
   * @param db the number of the database
   */
  constructor(
    readonly prefix: string,
    db: number,
  ) {
    this.#ofSessions = `${prefix}:s${FORMATS.sessions}`;
    this.tasks = `${prefix}:{:tasks}:`;
    this.bus = `${prefix}:{:bus}:`;
    this.nodeChannel = `${prefix}:${db}:node:`;
    this.everyone = `${prefix}:${db}:all`;
    this.gaps = `${prefix}:${db}:gaps`;
    this.probeChannel = `${prefix}:${db}:probe`;
  }

  /** Returns the prefix of one of so many indexes of sessions. */
  index(n: number, of: number): string {
    return `${this.#ofSessions}:{:sessions${of === 1 ? '' : `:${n}/${of}`}}:`;
  }

  record(session: string): string {
    return `${this.#ofSessions}:{${encoded(session)}}:session`;
  }

  /** Returns the prefix of the keys of an owner's state, and the code of one of its ids. */
  state(owner: string, id: string): { tag: string; id: string } {
    return { tag: `${this.prefix}:{:state:${encoded(owner)}}`, id: encoded(id) };
  }

  log(session: string): string {
    return `${this.#ofSessions}:{${encoded(session)}}:log`;
  }

  calls(node: string): string {
    return `${this.#ofSessions}:{:node:${encoded(node)}}:calls`;
  }

  /** Names where a health check writes; the numbers lead to different slots. */
  probe(slot: number): string {
    return `${this.prefix}:{:probe:${slot}}:`;
  }

  /** Names the set of the tasks of a node that have not ended. */
  tasksOf(node: string): string {
    return `${this.tasks}on:${encoded(node)}`;
  }

  channel(node: string): string {
    return `${this.nodeChannel}${encoded(node)}`;
  }
}
