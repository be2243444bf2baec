import {
  initializeMessage,
  legacyMessage,
  MODERN,
  modernHeaders,
  modernMessage,
  type Revision,
  type TrialRequest,
} from './trial-client.js';

/* What was just tried, to copy: with curl, and with the official client. A token is a variable there, never its value. */

export interface Tried {
  readonly url: string;
  readonly revision: Revision;
  readonly withToken: boolean;
  readonly request: TrialRequest;
}

export function curlOf({ url, revision, withToken, request }: Tried): string {
  const token = withToken ? [TOKEN] : [];
  if (revision === MODERN) {
    return post(url, [...linesOf(modernHeaders(request)), ...token], modernMessage(1, request));
  }
  const begin = post(url, token, initializeMessage(), '-i ');
  const session = [SESSION, ...linesOf({ 'mcp-protocol-version': revision })];
  const call = post(url, [...session, ...token], legacyMessage(2, request));
  return `${begin}\n\n# SESSION is the header Mcp-Session-Id of that response.\n${call}`;
}

/** Headers with a variable of the shell; all other texts are quoted. */
const TOKEN = '-H "authorization: Bearer $TOKEN"';
const SESSION = '-H "mcp-session-id: $SESSION"';

function post(url: string, headers: readonly string[], body: object, options = '-N '): string {
  const all = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
  const given = [...linesOf(all), ...headers, `-d ${quoted(JSON.stringify(body))}`];
  return [`curl ${options}${quoted(url)}`, ...given].join(' \\\n  ');
}

function linesOf(headers: Readonly<Record<string, string>>): string[] {
  return Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
}

/** Quotes for a shell, which then takes the text as it is. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const CALLS = { 'tools/call': 'callTool', 'prompts/get': 'getPrompt', 'resources/read': 'readResource' } as const;

export function codeOf({ url, withToken, request }: Tried): string {
  const headers = withToken
    ? ', {\n  requestInit: { headers: { Authorization: `Bearer ${process.env.TOKEN}` } },\n}'
    : '';
  return [
    `import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';`,
    '',
    `const client = new Client({ name: 'my-client', version: '1.0.0' });`,
    `const transport = new StreamableHTTPClientTransport(new URL(${JSON.stringify(url)})${headers});`,
    'await client.connect(transport);',
    `const result = await client.${CALLS[request.method]}(${JSON.stringify(request.params, null, 2)});`,
    'console.log(result);',
    'await client.close();',
  ].join('\n');
}
