import { appendFile } from 'node:fs/promises';
import type { McpAuditRecord, McpAuditSink } from 'nestjs-mcp-streamable/audit';

/** The part of TypeORM's `Repository<AuditEntry>` that is used. */
export interface Repository {
  insert(entity: object): Promise<unknown>;
}

// #region typeorm
/** `@InjectRepository(AuditEntry)`: the entity has a column for each property. */
export class TypeOrmSink implements McpAuditSink {
  constructor(private readonly repository: Repository) {}

  async write({ scopes, arguments: args, ...record }: McpAuditRecord): Promise<void> {
    await this.repository.insert({
      ...record,
      scopes: scopes?.join(' '),
      // A `simple-json` or `jsonb` column takes the value itself.
      arguments: args === undefined ? undefined : JSON.stringify(args),
    });
  }
}
// #endregion

/** The part of a database of Drizzle, and of its tables, that is used. */
export interface DrizzleDatabase<Table> {
  insert(table: Table): { values(row: object): Promise<unknown> };
}

// #region file
/** Appends a line of JSON for each record. Only the owner of the file can read it. */
export function fileSink(path: string): McpAuditSink {
  return {
    write: (record) => appendFile(path, `${JSON.stringify(record)}\n`, { mode: 0o600 }),
  };
}
// #endregion

// #region drizzle
/** `table` has a column for each property; `arguments` and `scopes` are `jsonb`. */
export function drizzleSink<Table>(
  db: DrizzleDatabase<Table>,
  table: Table,
): McpAuditSink {
  return {
    write: async (record) => {
      await db.insert(table).values({ ...record, time: new Date(record.time) });
    },
  };
}
// #endregion

/** The part of a logger of `@opentelemetry/api-logs` that is used. */
export interface OtelLogger {
  emit(record: {
    eventName: string;
    timestamp: Date;
    severityText: string;
    attributes: Record<string, string>;
  }): void;
}

// #region otel
/** `logger` is `logs.getLogger('audit')` of `@opentelemetry/api-logs`. */
export function otelLogSink(logger: OtelLogger): McpAuditSink {
  return {
    write: ({ time, ...record }) => {
      const attributes = Object.entries(record).map(([name, value]) => {
        return [
          `mcp.audit.${name}`,
          typeof value === 'string' ? value : JSON.stringify(value),
        ] as const;
      });
      const severityText = record.outcome === 'served' ? 'INFO' : 'WARN';
      const eventName = 'mcp.audit';
      logger.emit({
        eventName,
        timestamp: new Date(time),
        severityText,
        attributes: Object.fromEntries(attributes),
      });
    },
  };
}
// #endregion
