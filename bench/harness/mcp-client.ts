import { SERVER_INFO } from '../tools.js';
import { type Answer, headerOf, type HttpConnection } from './http-connection.js';
import { sseData } from './sse.js';
import type { Beginning } from './subjects.js';

/** What a client says, as text made ahead where it can be, and what it must hear. A wrong answer fails the bench. */

const JSON_HEADERS = 'Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n';
const REVISION = '2025-11-25';
const MODERN = '2026-07-28';
/** What every client sends along with a modern request. */
const ENVELOPE =
  `"io.modelcontextprotocol/protocolVersion":"${MODERN}",` +
  `"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},"io.modelcontextprotocol/clientCapabilities":{}`;

/** One session: the heads of its requests. */
export interface Session {
  readonly id: string;
  /** Request line and headers of a POST. */
  readonly post: string;
  /** Headers that every request of the session has. */
  readonly headers: string;
}

const postTo = (path: string): string => `POST ${path} HTTP/1.1\r\n${JSON_HEADERS}`;
const POST = postTo('/mcp');
const AT_ONE_PATH: Beginning = { initialize: '/mcp', initialized: '/mcp' };

/** What is sent to who knows no sessions: a bare route takes the same request, headers included. */
export const NO_SESSION: Session = sessionOf('0123456789abcdefghijk', REVISION);

function sessionOf(id: string, revision: string): Session {
  const headers = `Mcp-Session-Id: ${id}\r\nMcp-Protocol-Version: ${revision}\r\n`;
  return { id, headers, post: `${POST}${headers}` };
}

const INITIALIZE = JSON.stringify({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: REVISION, capabilities: {}, clientInfo: { name: 'bench', version: '1.0.0' } },
});
const INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}';

export async function openSession(
  connection: HttpConnection,
  { initialize, initialized }: Beginning = AT_ONE_PATH,
): Promise<Session> {
  const answer = await connection.exchange(postTo(initialize), INITIALIZE);
  const id = headerOf(answer.text, 'mcp-session-id');
  const { result } = messagesOf(answer).at(-1) as { result?: { serverInfo?: object; protocolVersion?: string } };
  must(result?.serverInfo && 'name' in result.serverInfo && result.serverInfo.name === SERVER_INFO.name, answer);
  must(id !== undefined && result.protocolVersion !== undefined, answer);
  const session = sessionOf(id, result.protocolVersion);
  const accepted = await connection.exchange(`${postTo(initialized)}${session.headers}`, INITIALIZED);
  must(accepted.status === 202, accepted);
  return session;
}

export async function endSession(connection: HttpConnection, { headers }: Session): Promise<void> {
  const answer = await connection.exchange(`DELETE /mcp HTTP/1.1\r\n${headers}`);
  must(answer.status === 200 || answer.status === 204, answer);
}

/** Calls `add` in a session, with numbers that differ from call to call. */
export async function callAdd(connection: HttpConnection, { post }: Session, index: number): Promise<void> {
  const body = `{"jsonrpc":"2.0","id":${index + 1},"method":"tools/call","params":{"name":"add","arguments":{"a":${index},"b":2}}}`;
  checkSum(await connection.exchange(post, body), index);
}

/** Lists all tools. @param check of {@link listOf} */
export async function listTools(
  connection: HttpConnection,
  { post }: Session,
  index: number,
  check: (answer: Answer) => void,
): Promise<void> {
  // All ids have one length, and so have all answers.
  const body = `{"jsonrpc":"2.0","id":${1_000_000 + index},"method":"tools/list","params":{}}`;
  check(await connection.exchange(post, body));
}

/** The first answer must have so many tools, and the others its length: to read each would take longer than to make it. */
export function listOf(count: number): (answer: Answer) => void {
  let length: number | undefined;
  return (answer) => {
    if (length === undefined) {
      const [message] = messagesOf(answer) as { result?: { tools?: unknown[] } }[];
      must(message?.result?.tools?.length === count, answer, `${count} tools`);
      length = answer.body.length;
    }
    must(answer.status === 200 && answer.body.length === length, answer, `${length} characters`);
  };
}

/** Calls `add` as revision 2026-07-28 does. */
export async function callModernAdd(
  connection: HttpConnection,
  path: string,
  index: number,
  headers = '',
): Promise<void> {
  const { head, body } = modernRequest(index + 1, 'tools/call', `"name":"add","arguments":{"a":${index},"b":2}`, path);
  checkSum(await connection.exchange(`${head}Mcp-Name: add\r\n${headers}`, body), index);
}

/** @param params as JSON, without its braces */
export function modernRequest(
  id: number,
  method: string,
  params: string,
  path = '/mcp',
): { head: string; body: string } {
  const headers = `Mcp-Protocol-Version: ${MODERN}\r\nMcp-Method: ${method}\r\n`;
  const body = `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":{${params},"_meta":{${ENVELOPE}}}}`;
  return { head: `POST ${path} HTTP/1.1\r\n${JSON_HEADERS}${headers}`, body };
}

/** @param n how many reports are asked for, and must come before the answer */
export async function callProgress(
  connection: HttpConnection,
  session: Session,
  id: number,
  n: number,
): Promise<Answer> {
  const answer = await connection.exchange(session.post, progressRequest(id, n));
  const messages = messagesOf(answer);
  must(messages.length === n + 1, answer, `${n + 1} messages`);
  for (const [index, message] of messages.entries()) {
    const { method, params, result } = message as Reported;
    if (index < n) must(method === 'notifications/progress' && params?.progress === index + 1, answer);
    else must(result?.content[0]?.text === `${n} reported`, answer);
  }
  return answer;
}

export function progressRequest(id: number, n: number): string {
  const params = { name: 'progress', arguments: { n }, _meta: { progressToken: id } };
  return JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params });
}

interface Reported {
  method?: string;
  params?: { progress?: number };
  result?: { content: { text: string }[] };
}

/** @throws when the answer is not `index` + 2 */
function checkSum(answer: Answer, index: number): void {
  const [message] = messagesOf(answer) as { id?: number; result?: { content?: { text?: string }[] } }[];
  must(answer.status === 200 && message?.id === index + 1, answer);
  must(message.result?.content?.[0]?.text === String(index + 2), answer, String(index + 2));
}

/** The messages of an answer, JSON or SSE. */
function messagesOf(answer: Answer): unknown[] {
  const type = headerOf(answer.text, 'content-type') ?? '';
  if (type.startsWith('application/json')) return [JSON.parse(answer.body)];
  must(type.startsWith('text/event-stream'), answer, 'JSON or SSE');
  return sseData(answer.body).map((data) => JSON.parse(data) as unknown);
}

function must(fine: unknown, { status, body }: Answer, expected = 'a right answer'): asserts fine {
  if (!fine) throw new Error(`Expected ${expected}, got ${status} ${body.slice(0, 500)}`);
}
