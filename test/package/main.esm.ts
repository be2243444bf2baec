import { McpServer } from '@modelcontextprotocol/server';
import { report } from './report.js';

// An ES module app gets the same copy of the SDK as the library, whichever of the two it imports it from.
await report(McpServer);
