// #region timing
import { Injectable, Logger } from '@nestjs/common';
import { type McpEndpointPlugin, McpPlugin } from 'nestjs-mcp-streamable/plugins';

/** Logs how long each call of a tool took, and how it ended. */
@Injectable()
export class ToolTimes extends McpPlugin {
  readonly ring = 'observe';
  private readonly logger = new Logger(ToolTimes.name);

  attach(): McpEndpointPlugin {
    return {
      call: (call) => {
        if (call.method !== 'tools/call') return undefined;
        return {
          ended: ({ durationMs, outcome }) => {
            // A client may name tools that do not exist.
            const name = call.target?.key ?? '(unknown)';
            this.logger.log(`${name}: ${outcome} after ${Math.round(durationMs)} ms`);
          },
        };
      },
    };
  }
}
// #endregion
