import { randomBytes } from 'node:crypto';
import type { McpStreamableOptions } from 'nestjs-mcp-streamable';
import { InMemoryMessageBus, type McpLostNode, type McpMessageBus } from 'nestjs-mcp-streamable/stores';
import { defer, from, map, type Observable } from 'rxjs';
import { Database } from './database.js';
import { SqliteEventStore } from './sqlite-event-store.js';
import { SqliteSessionStore } from './sqlite-session-store.js';

/**
 * Sessions and what was sent on their streams, in a file, for one process at a time and one endpoint. The next process goes on
 * with them, whether this one was stopped or killed.
 *
 * The file holds secrets, the ids of sessions among them: keep it where only the app reads it.
 */
export function sqliteStores(
  path: string,
): Pick<McpStreamableOptions, 'sessionStore' | 'eventStore' | 'messageBus' | 'requestStateKeys'> {
  const db = new Database(path);
  const eventStore = new SqliteEventStore(db);
  return {
    sessionStore: new SqliteSessionStore(db),
    eventStore,
    messageBus: new RestartBus(eventStore, () => db.close()),
    requestStateKeys: [keptKey(db)],
  };
}

/** The bus of a single process. It emits the processes before it on `lost$`, as nodes that have died. */
class RestartBus extends InMemoryMessageBus implements McpMessageBus {
  /** Their calls are answered with an error. Calls that are still open when this process dies are found by the next one. */
  override readonly lost$: Observable<McpLostNode>;

  constructor(
    events: SqliteEventStore,
    private readonly closed: () => void,
  ) {
    super();
    const former = defer(() => from(events.nodes().filter((node) => node !== this.nodeId)));
    this.lost$ = former.pipe(map((node) => ({ node, done: () => Promise.resolve() })));
  }

  /** The module closes the bus last. */
  override async close(): Promise<void> {
    await super.close();
    this.closed();
  }
}

/** What clients of 2026-07-28 carry between two rounds of questions must open after a restart, too. */
function keptKey(db: Database): string {
  db.exec('CREATE TABLE IF NOT EXISTS secret (id INTEGER PRIMARY KEY, value TEXT NOT NULL) STRICT');
  db.rows('INSERT OR IGNORE INTO secret (id, value) VALUES (1, ?)', randomBytes(32).toString('base64'));
  return db.rows<{ value: string }>('SELECT value FROM secret')[0]!.value;
}
