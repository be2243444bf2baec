import type { CallToolResult } from '@modelcontextprotocol/server';

/** The URI of a document. */
export function uriOf(name: string): string {
  return `docs:///${name.split('/').map(encodeURIComponent).join('/')}`;
}

/** A result that is one text. */
export function text(content: string): CallToolResult {
  return { content: [{ type: 'text', text: content }] };
}
