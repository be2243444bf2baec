import { Injectable } from '@nestjs/common';
import type { McpAuditRecord, McpAuditSink } from 'nestjs-mcp-streamable/audit';

/** Keeps the last records. A real one writes them into a table. */
@Injectable()
export class AuditTrail implements McpAuditSink {
  readonly records: McpAuditRecord[] = [];

  write(record: McpAuditRecord): void {
    this.records.push(record);
    if (this.records.length > 1_000) this.records.shift();
  }
}
