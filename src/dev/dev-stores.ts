import { createHash, randomBytes } from 'node:crypto';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { McpClock } from '../core/common/clock.js';
import { FORMATS } from '../core/common/formats.js';
import { quiet } from '../core/common/promises.js';
import { randomToken } from '../core/common/random-token.js';
import type { EndpointName } from '../core/calls/endpoint-name.js';
import { logger } from '../core/calls/operator-log.js';
import type { Offer } from '../core/plugins/offer.js';
import type { McpSessionStore } from '../core/sessions/store/session-store.js';
import { InMemorySessionStore } from '../core/sessions/store/in-memory-session-store.js';
import type { McpStateStore } from '../core/questions/state/state-store.js';
import { InMemoryStateStore } from '../core/questions/state/in-memory-state-store.js';
import type { McpSharedEventStore } from '../core/log/event-store.js';
import { InMemoryEventStore } from '../core/log/in-memory-event-store.js';
import type { McpEventLogOptions } from '../core/log/stream.options.js';
import { REQUEST_FAILED } from '../core/protocol/errors.js';
import { STANDALONE_STREAM } from '../core/protocol/events.js';
import { Journal } from './journal.js';

/** A journal is not read if its own format, one of what it holds, or the version of Node is another one. */
const FORMAT = `2 ${JSON.stringify(FORMATS)} ${process.version}`;
/** Tells the journals of this process from those of processes that have ended. */
const PROCESS = randomToken();

const RESTARTED =
  'This server was restarted while it ran this request. Whether it had an effect is not known. Repeat it if that does no harm.';

const LISTS_CHANGED = ['tools', 'prompts', 'resources'].map((list) =>
  JSON.stringify({ jsonrpc: '2.0', method: `notifications/${list}/list_changed` }),
);

/**
 * Whether a method changes its store itself, not by another method. Such a method runs to its end synchronously: the order of the
 * entries is that of the changes.
 */
const CHANGES = {
  sessionStore: {
    create: true,
    get: false,
    patch: true,
    touch: true,
    delete: true,
    claimExpired: true,
    claimAnonymous: true,
    list: false,
    count: false,
  },
  eventStore: {
    open: true,
    append: true,
    // Does nothing, because `append` is replaced.
    appendNow: false,
    read: true,
    claim: true,
    release: true,
    drop: true,
    unfinished: false,
    stats: false,
    sizeOf: false,
  },
  stateStore: { get: false, set: true, delete: true, add: false, compareAndSet: false },
} satisfies {
  sessionStore: MethodsOf<McpSessionStore>;
  eventStore: MethodsOf<McpSharedEventStore>;
  stateStore: MethodsOf<McpStateStore>;
};

/** A method that is missing here does not compile. */
type MethodsOf<Store> = Record<Exclude<keyof Store, 'scope'>, boolean>;
type StoreName = keyof typeof CHANGES;
interface Snapshot extends Readonly<Record<StoreName, never>> {
  readonly format: string;
  readonly process: string;
  readonly requestStateKey: Uint8Array;
}
type Change = [at: number, store: StoreName, method: string, args: unknown[]];
type Method = (...args: unknown[]) => unknown;

/**
 * # Sessions that go on after a restart, while an app is developed
 *
 * `nest start --watch` ends the process at each saved file, and clients of the 2025 revisions never initialize again after a
 * 404. So the stores in memory write each of their changes to a {@link Journal} before they carry it out, and the next
 * process begins by carrying out all of them again, with the times that they had.
 *
 * The process is often killed without a signal that it could handle, which is why nothing is left for the shutdown to write.
 * A call that ran is answered with an error, on its stream, where its client looks for the answer.
 */
export class DevStores {
  readonly sessionStore: InMemorySessionStore;
  readonly eventStore: InMemoryEventStore;
  readonly stateStore: InMemoryStateStore;
  /** Encrypts what modern clients hold while they answer questions. */
  requestStateKey: Uint8Array = randomBytes(32);
  #journal!: Journal;
  /** The time of the change that is carried out again; the stores see it instead of the clock's. */
  #replayedAt: number | undefined;

  private constructor(
    eventLog: McpEventLogOptions,
    private readonly clock: McpClock,
    private readonly process: string,
  ) {
    const replayed: McpClock = { ...clock, now: () => this.#replayedAt ?? clock.now() };
    this.sessionStore = new InMemorySessionStore(replayed);
    this.eventStore = new InMemoryEventStore(eventLog, replayed);
    this.stateStore = new InMemoryStateStore(replayed);
  }

  /**
   * @param failed called at most once, when the journal cannot be written any more: the stores go on in memory
   * @throws Error (rejects) when the journal cannot be used, as when another process writes it
   */
  static async open(
    path: string,
    eventLog: McpEventLogOptions,
    clock: McpClock,
    failed: (error: Error) => void,
    process = PROCESS,
  ): Promise<DevStores> {
    let stores = new DevStores(eventLog, clock, process);
    const journal = await Journal.open(path, () => stores.#snapshot(), clock.now(), failed);
    try {
      stores.#restore(journal.entries as [Snapshot?, ...Change[]]);
    } catch {
      // Another version of this package wrote it: no later start could read it either.
      stores = new DevStores(eventLog, clock, process);
    }
    stores.#journal = journal;
    journal.compact();
    for (const name of Object.keys(CHANGES) as StoreName[]) stores.#writeDown(name);
    return stores;
  }

  /** Closes the journal: later changes are not kept, above all those of the shutdown, which ends all sessions. */
  close(): void {
    this.#journal.close();
  }

  #snapshot(): Snapshot {
    const { sessionStore, eventStore, stateStore, requestStateKey } = this;
    const stores = { sessionStore: sessionStore.dump(), eventStore: eventStore.dump(), stateStore: stateStore.dump() };
    return { format: FORMAT, process: this.process, requestStateKey, ...stores } as unknown as Snapshot;
  }

  #restore([snapshot, ...changes]: [Snapshot?, ...Change[]]): void {
    // Another app of this process has ended, as in tests: this is no restart.
    if (snapshot?.format !== FORMAT || snapshot.process === this.process) return;
    this.requestStateKey = snapshot.requestStateKey;
    for (const name of Object.keys(CHANGES) as StoreName[]) this[name].load(snapshot[name]);
    for (const [at, store, method, args] of changes) {
      this.#replayedAt = at;
      try {
        const target = this[store] as unknown as Record<string, Method>;
        void quiet(Promise.resolve(target[method]!(...args)));
      } catch {
        // It was refused then, too.
      }
    }
    this.#replayedAt = undefined;
    this.eventStore.endCalls({ code: REQUEST_FAILED, message: RESTARTED });
  }

  /** Tells the clients of restored sessions to read the lists again: the handlers may be others now. */
  announceLists(): void {
    for (const { session } of this.eventStore.dump()) {
      void this.eventStore.append(session, STANDALONE_STREAM, LISTS_CHANGED, { writer: this.process, seq: 1 });
    }
  }

  #writeDown(store: StoreName): void {
    for (const [method, changes] of Object.entries(CHANGES[store])) {
      if (!changes) continue;
      const target = this[store] as unknown as Record<string, Method>;
      const change = target[method]!.bind(target);
      const written: Method = (...args) => {
        // Reading changes something only if it acknowledges events.
        if (method !== 'read' || args[4])
          this.#journal.append([this.clock.now(), store, method, args] satisfies Change);
        return change(...args);
      };
      Object.defineProperty(target, method, { value: written });
    }
  }
}

/** What the stores of an endpoint are made of. */
interface DevParts {
  readonly options: { readonly eventLog: McpEventLogOptions };
  readonly endpoint: EndpointName;
  readonly clock: McpClock;
  readonly serves: Offer['serves'];
}

/** Opens the stores of an endpoint. @returns `undefined` if its journal cannot be used: then its sessions end with this process */
export async function openDevStores({ options, endpoint, clock, serves }: DevParts): Promise<DevStores | undefined> {
  try {
    const journal = journalOf(endpoint);
    const stores = await DevStores.open(journal, options.eventLog, clock, ({ message }) =>
      logger.warn(
        `The sessions of the endpoint "${endpoint.path}" end with this process from now on, because their file ${journal} cannot be written (${message}). It was removed. To keep them over restarts again, free space on its disk and restart the app.`,
      ),
    );
    if (serves === 'handlers') stores.announceLists();
    return stores;
  } catch (error) {
    logger.log(
      `Sessions of the endpoint "${endpoint.path}" end with this process, also while you develop: ${(error as Error).message}`,
    );
    return undefined;
  }
}

/**
 * Returns the file of an endpoint: the same one when its app is started again, another one for each app, endpoint and
 * user.
 */
function journalOf({ name, path, version }: EndpointName): string {
  const app = JSON.stringify([process.cwd(), process.argv[1], name, path, String(version)]);
  const hash = createHash('sha256').update(app).digest('hex').slice(0, 32);
  return join(tmpdir(), `nestjs-mcp-streamable-${process.getuid?.() ?? 'user'}`, hash);
}
