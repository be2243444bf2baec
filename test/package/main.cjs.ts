import { McpServer } from 'nestjs-mcp-streamable';
import { importEntries } from './entries.js';
import { makeServer, serveAndCall } from './serve-and-call.js';

// `require('@modelcontextprotocol/server')` would be another copy than the library's: hence its re-export.
importEntries();
serveAndCall(() => makeServer(McpServer)).catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
