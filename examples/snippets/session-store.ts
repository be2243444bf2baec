// #region store
import { Inject, Injectable } from '@nestjs/common';
import { McpSessionStore } from 'nestjs-mcp-streamable/stores';

@Injectable()
export class SessionStatistics {
  constructor(@Inject(McpSessionStore) private readonly store: McpSessionStore) {}

  /** @returns how many sessions of each revision have been used in the last hour */
  async revisions(): Promise<Map<string, number>> {
    const since = Date.now() - 3_600_000;
    const counts = new Map<string, number>();
    for (const { protocolVersion, lastSeenAt } of await this.store.list()) {
      if (lastSeenAt >= since)
        counts.set(protocolVersion, (counts.get(protocolVersion) ?? 0) + 1);
    }
    return counts;
  }
}
// #endregion
