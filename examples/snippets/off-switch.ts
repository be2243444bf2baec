// #region service
import { Inject, Injectable } from '@nestjs/common';
import { McpRegistry } from 'nestjs-mcp-streamable';

@Injectable()
export class RefundSwitch {
  constructor(@Inject(McpRegistry) private readonly registry: McpRegistry) {}

  async off(): Promise<void> {
    await this.registry.disable('refund', {
      reason: 'The payment provider is down. Try again after 15:00.',
    });
  }

  async on(): Promise<void> {
    await this.registry.enable('refund');
  }

  /** @returns the tools that are off, with why and since when */
  state(): object[] {
    return this.registry
      .list('tool')
      .flatMap(({ key, disabled }) => (disabled ? [{ tool: key, ...disabled }] : []));
  }
}
// #endregion
