import type { HttpException } from '@nestjs/common';
import { isRecord } from './content.js';

/**
 * What an `HttpException` says to the client: its message, or its messages, one per line; else its whole response, which
 * was meant for a client too.
 */
export function textOf(exception: HttpException): string {
  const response: unknown = exception.getResponse();
  if (typeof response === 'string') return response || exception.message;
  if (!isRecord(response)) return exception.message;
  const { message } = response;
  if (typeof message === 'string') return message;
  if (Array.isArray(message) && message.every((line) => typeof line === 'string')) return message.join('\n');
  return jsonOrUndefined(message ?? response) ?? exception.message;
}

/** An entity with a cycle or a bigint is as good a response as any; what JSON says of it is not for the client. */
function jsonOrUndefined(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    return undefined;
  }
}
