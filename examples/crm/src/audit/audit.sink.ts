import { Injectable } from '@nestjs/common';
import { InjectRepository } from '@nestjs/typeorm';
import type { McpAuditRecord, McpAuditSink } from 'nestjs-mcp-streamable/audit';
import { Repository } from 'typeorm';
import { Audit } from './audit.entity.js';

/** One row for each decision. In production let the app add rows to this table, and no more. */
@Injectable()
export class AuditSink implements McpAuditSink {
  constructor(@InjectRepository(Audit) private readonly rows: Repository<Audit>) {}

  async write(record: McpAuditRecord): Promise<void> {
    const { id, outcome, principal } = record;
    const tenant = principal?.split('|')[0];
    await this.rows.insert({ id, outcome, time: new Date(record.time), tenant, record });
  }
}
