import type { GetPromptResult, InputRequiredResult, PromptMessage } from '@modelcontextprotocol/server';
import { isInputRequiredResult } from '../../wire/spec.js';
import { invocationMessages } from '../invocation.messages.js';
import { assertSpecified, isContentBlock, isRecord, textBlock } from './content.js';
import { HandlerResultError } from './handler-result.error.js';
import { plain } from './tool-result.js';

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
  if (typeof value === 'string') return { messages: [messageOf(value)] };
  const given = isRecord(value) && Array.isArray(value['messages']) ? plain(value) : value;
  const whole =
    isRecord(given) && Array.isArray(given['messages']) ? given : { messages: Array.isArray(given) ? given : [given] };
  const result = { ...whole, messages: Array.from(whole['messages'] as unknown[], messageOf) };
  assertSpecified('GetPromptResult', 'prompt', result);
  return result;
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
