import { readMessages, type JsonRpcMessage } from '../wire/json-rpc.js';
import type { SseEvent } from './response-body.js';

/**
 * The messages that an event of a stream carries.
 *
 * @param report told of an event that cannot be read
 * @returns none for an event of another type, without data, or that cannot be read
 */
export function messagesOf({ type, data }: SseEvent, report: (error: unknown) => void): readonly JsonRpcMessage[] {
  if (data === '' || (type !== undefined && type !== 'message')) return [];
  try {
    return readMessages(data).messages;
  } catch (error) {
    report(error);
    return [];
  }
}
