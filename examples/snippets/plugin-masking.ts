// #region masking
import { Injectable } from '@nestjs/common';
import {
  type McpEndpointPlugin,
  type McpPassed,
  McpPlugin,
  passed,
} from 'nestjs-mcp-streamable/plugins';

const EMAIL = /[\w.+-]+@[\w-]+(?:\.[\w-]+)+/g;

/** Masks the addresses of persons in all results. */
@Injectable()
export class MaskedEmails extends McpPlugin {
  readonly ring = 'app';

  attach(): McpEndpointPlugin {
    const run = () => ({
      around: async (next: () => Promise<McpPassed>) => {
        const result = await next();
        return passed(result, JSON.parse(JSON.stringify(result), masked) as object);
      },
    });
    return { handler: () => ({ run }) };
  }
}

const masked = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.replaceAll(EMAIL, '(masked)') : value;
// #endregion
