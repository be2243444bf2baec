import { McpServer } from 'nestjs-mcp-streamable/server';
import { report } from './report.js';

// `require('@modelcontextprotocol/server')` would be another copy than the library's: hence its re-export.
report(McpServer).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
