/** What is used here of `node:sqlite`; with `@types/node` 22 or newer this file is not needed. */
declare module 'node:sqlite' {
  export class DatabaseSync {
    constructor(path: string);
    exec(sql: string): void;
    prepare(sql: string): StatementSync;
    close(): void;
  }

  export class StatementSync {
    all(...values: (string | number | null)[]): unknown[];
  }
}
