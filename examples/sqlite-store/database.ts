import { DatabaseSync, type StatementSync } from 'node:sqlite';

/**
 * A file of SQLite, which is made if there is none. Calls are synchronous: nothing else of this process comes in between.
 *
 * What was written survives a process that is killed; when the machine loses its power, the last moments may be lost.
 */
export class Database extends DatabaseSync {
  /** Each text is prepared once. */
  readonly #statements = new Map<string, StatementSync>();

  constructor(path: string) {
    super(path);
    // Foreign keys are enforced by default here.
    this.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA busy_timeout = 5000');
  }

  /** Runs a statement. @returns the rows that it selects, or that it changes and returns */
  rows<Row>(sql: string, ...values: (string | number | null)[]): Row[] {
    const statement = this.#statements.get(sql) ?? this.prepare(sql);
    this.#statements.set(sql, statement);
    return statement.all(...values) as Row[];
  }

  /** Carries all of it out, or, when it throws, nothing. */
  atomically<T>(work: () => T): T {
    this.exec('BEGIN IMMEDIATE');
    try {
      const result = work();
      this.exec('COMMIT');
      return result;
    } catch (error) {
      this.exec('ROLLBACK');
      throw error;
    }
  }
}
