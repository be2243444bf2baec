import type { McpServer } from 'nestjs-mcp-streamable/server';
import { importEntries } from './entries.js';
import { serveAndCall } from './serve-and-call.js';

/** All that an app does. Prints what was tried, for `scripts/check-compat.mjs`. @param ServerClass as it gets hold of it */
export async function report(ServerClass: typeof McpServer): Promise<void> {
  const adapter = process.env['ADAPTER'] ?? 'express';
  const entries = importEntries();
  const calls = await serveAndCall(ServerClass, adapter);
  console.log(JSON.stringify({ node: process.versions.node, adapter, entries, calls }));
}
