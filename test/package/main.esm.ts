import { McpServer } from '@modelcontextprotocol/server';
import { importEntries } from './entries.js';
import { makeServer, serveAndCall } from './serve-and-call.js';

// An ES module app gets the same copy of the SDK as the library, whichever of the two it imports it from.
importEntries();
await serveAndCall(() => makeServer(McpServer));
