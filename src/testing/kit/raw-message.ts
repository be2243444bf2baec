import { createParser } from 'eventsource-parser';
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  type McpEra,
  PROTOCOL_VERSION_META_KEY,
} from '../../core/protocol/era.js';
import { mirrorHeaders } from '../../core/protocol/modern-headers.js';

/** A message as it goes over the wire. @publicApi */
export interface McpRawMessage {
  [member: string]: unknown;
}

/** The response to a message that was sent as it is. @publicApi */
export interface McpRawAnswer {
  status: number;
  headers: Headers;
  /** All messages of the response, in order, whether it was JSON or a stream. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  messages: any[];
}

/** Describes the sender and its era. */
export interface RawSender {
  readonly era: McpEra;
  readonly sessionId: string | undefined;
  readonly revision: string | undefined;
  readonly capabilities: object;
  /** The headers of the caller have precedence over the usual ones. */
  readonly caller: Record<string, string>;
}

const USUAL = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };

/** Posts a message with the headers that a client of its era sends with it. */
export async function sendRaw(
  post: (init: RequestInit) => Promise<Response>,
  message: McpRawMessage | McpRawMessage[],
  sender: RawSender,
): Promise<McpRawAnswer> {
  const { sessionId, revision, caller } = sender;
  const sent = withEnvelope(message, sender);
  const mirrored = sender.era === 'modern' && !Array.isArray(sent) && mirrorHeaders(sent as never);
  const headers = {
    ...USUAL,
    ...(sessionId !== undefined && { 'mcp-session-id': sessionId }),
    ...(revision !== undefined && { 'mcp-protocol-version': revision }),
    ...(mirrored && lowerCased(mirrored)),
    ...lowerCased(caller),
  };
  const response = await post({ method: 'POST', headers, body: JSON.stringify(sent) });
  const text = await response.text();
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false;
  return { status: response.status, headers: response.headers, messages: messagesOf(text, isStream) };
}

function withEnvelope(
  message: McpRawMessage | McpRawMessage[],
  { era, revision, capabilities }: RawSender,
): McpRawMessage | McpRawMessage[] {
  if (era === 'legacy' || Array.isArray(message)) return message;
  const params = (message['params'] ?? {}) as Record<string, unknown>;
  if (params['_meta'] !== undefined) return message;
  const _meta = {
    [PROTOCOL_VERSION_META_KEY]: revision,
    [CLIENT_INFO_META_KEY]: { name: 'raw', version: '1.0.0' },
    [CLIENT_CAPABILITIES_META_KEY]: capabilities,
  };
  return { ...message, params: { ...params, _meta } };
}

function messagesOf(text: string, isStream: boolean): unknown[] {
  if (!isStream) return text === '' ? [] : [JSON.parse(text)].flat();
  const messages: unknown[] = [];
  const parser = createParser({ onEvent: ({ data }) => data !== '' && messages.push(JSON.parse(data)) });
  parser.feed(text);
  return messages;
}

function lowerCased(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));
}
