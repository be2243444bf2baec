import {
  isInputRequiredResult,
  type GetPromptResult,
  type InputRequiredResult,
  type PromptMessage,
} from '@modelcontextprotocol/server';
import { invocationMessages } from '../invocation.messages.js';
import { isContentBlock, isRecord, textBlock } from './content.js';
import { HandlerResultError } from './handler-result.error.js';

/**
 * The result of a prompt from what its method returned: a text or a content block (a message of the user), messages (one
 * or several), or a whole result. Nothing gives no messages.
 *
 * @throws HandlerResultError for anything else
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts#promptmessage
 */
export function toPromptResult(value: unknown): GetPromptResult | InputRequiredResult {
  if (isInputRequiredResult(value)) return value;
  if (value === undefined || value === null) return { messages: [] };
  if (isRecord(value) && Array.isArray(value['messages'])) {
    return { ...value, messages: value['messages'].map(messageOf) };
  }
  return { messages: Array.isArray(value) ? value.map(messageOf) : [messageOf(value)] };
}

function messageOf(value: unknown): PromptMessage {
  if (typeof value === 'string') return { role: 'user', content: textBlock(value) };
  if (isContentBlock(value)) return { role: 'user', content: value };
  if (isMessage(value)) return value;
  throw new HandlerResultError(invocationMessages.notAPrompt());
}

function isMessage(value: unknown): value is PromptMessage {
  if (!isRecord(value) || !isContentBlock(value['content'])) return false;
  return value['role'] === 'user' || value['role'] === 'assistant';
}
