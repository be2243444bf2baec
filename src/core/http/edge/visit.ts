import type { IncomingHttpHeaders } from 'node:http';
import { SESSION_ID_HEADER } from '../../protocol/headers.js';

/** Returns whether a person has opened the address of an endpoint in a browser: it asks for a page, which no client does (E19). */
export function isVisit({
  method,
  headers,
}: {
  readonly method?: string | undefined;
  readonly headers: IncomingHttpHeaders;
}): boolean {
  const { accept = '' } = headers;
  return (
    method === 'GET' && /text\/html/i.test(accept) && !/event-stream/i.test(accept) && !(SESSION_ID_HEADER in headers)
  );
}

export const VISIT_TYPE = 'text/plain; charset=utf-8';
/** A text quotes what the browser has sent, and is nothing but text. */
export const VISIT_HEADERS: Readonly<Record<string, string>> = { 'X-Content-Type-Options': 'nosniff' };

/** Returns the text for such a person. It names neither the server nor this package. @param reason of the refusal */
export function visitText(status: number, reason: string): string {
  return `This is an endpoint of the Model Context Protocol (MCP). Programs talk to it: it has no page for a browser.

To use it, add this address to an MCP client, such as an assistant or an editor.

The request of this browser was answered with ${status}: ${reason}
`;
}
