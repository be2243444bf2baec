import { Logger } from '@nestjs/common';
import { printable, shown } from '../protocol/errors.js';

/** Escapes what could change a terminal: texts and stacks may quote a client. */
export class OperatorLogger extends Logger {
  override error(message: unknown, stack?: unknown): void {
    if (stack === undefined) super.error(escaped(message));
    else super.error(escaped(message), escaped(stack));
  }
  override warn(message: unknown): void {
    super.warn(escaped(message));
  }
  override log(message: unknown): void {
    super.log(escaped(message));
  }
  override debug(message: unknown): void {
    super.debug(escaped(message));
  }
}

const escaped = (text: unknown): unknown => (typeof text === 'string' ? printable(text) : text);

/** Logs under the name of the library. */
export const logger = new OperatorLogger('McpStreamable');

/**
 * The injection token of the function that reports an error of a store that no session waits for: to the app as an
 * event, and to the log once per outage.
 */
export const STORE_FAULT = Symbol('nestjs-mcp-streamable:store-fault');

export type ReportStoreFault = (error: unknown) => void;

/** Logs an error that is not sent to clients, with its stack. */
export function logError(error: unknown): void {
  logger.error(error instanceof Error ? error.message : error, (error as Error)?.stack);
}

/**
 * Returns the text for a value that a guard threw and that is no object: it has neither a message nor a stack.
 *
 * @param guards the guards that may have thrown it
 */
export function guardThrew(guards: readonly string[], thrown: unknown): string {
  const names = [...new Set(guards)].join(', ');
  const who = guards.length === 1 ? `Guard ${names}` : names ? `One of the guards ${names}` : 'A guard';
  return `${who} threw ${thrown === undefined ? 'undefined' : shown(thrown)}: throw an Error, or an HttpException for the caller.`;
}

/** Returns the name of a guard or interceptor, a class or an object, for messages. */
export function nameOfEnhancer(enhancer: object): string {
  return typeof enhancer === 'function' ? enhancer.name : enhancer.constructor.name;
}

/** Returns whether a thrown value has neither a message nor a stack. */
export function isPlain(thrown: unknown): boolean {
  return thrown === null || (typeof thrown !== 'object' && typeof thrown !== 'function');
}
