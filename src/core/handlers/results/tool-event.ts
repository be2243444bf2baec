import type { McpContext } from '../../calls/mcp-context.js';

/** The symbol is registered: events of another copy of this package are events too. */
const TOOL_EVENT: unique symbol = Symbol.for('nestjs-mcp-streamable:tool-event');

/** The severity of a log message, from `debug` to `emergency` (RFC 5424). @publicApi */
export type McpLogLevel = Parameters<McpContext['log']>[0];

/** A handler reports progress while it runs. @publicApi */
export interface ToolProgress {
  readonly [TOOL_EVENT]: 'progress';
  readonly progress: number;
  readonly total: number | undefined;
  readonly message: string | undefined;
}

/** A log message for the client. @publicApi */
export interface ToolLog {
  readonly [TOOL_EVENT]: 'log';
  readonly level: McpLogLevel;
  readonly data: unknown;
  readonly logger: string | undefined;
}

/** These values can become the result of a tool. @internal */
export type ToolValue = string | number | boolean | null | undefined | object;

/**
 * An Observable or an async iterable of a handler emits any number of reports, which are sent at once, and one value
 * without a tag, which is the result.
 *
 * ```diff
 * +@Tool({ name: 'export_orders', description: 'Exports all orders' })
 *  export(): Observable<ToolEvent<string>> {
 *    return this.orders.exportAll$().pipe(
 *      map((step) => step.done ? step.url : toolProgress(step.rows, step.total)),
 *    );
 *  }
 * ```
 *
 * @publicApi
 */
export type ToolEvent<T = ToolValue> = ToolProgress | ToolLog | T;

/**
 * Makes a report of progress, to be emitted by a handler. Nothing is sent when the client did not ask for it.
 *
 * @param progress grows with every report
 * @param total the final value of `progress`, if known
 * @param message for users
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/progress
 * @publicApi
 */
export function toolProgress(progress: number, total?: number, message?: string): ToolProgress {
  return { [TOOL_EVENT]: 'progress', progress, total, message };
}

/**
 * Makes a log message, to be emitted by a handler. It is sent if the client wants messages of that level.
 *
 * @param data anything that can be JSON
 * @param logger name of the logger
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/logging
 * @publicApi
 */
export function toolLog(level: McpLogLevel, data: unknown, logger?: string): ToolLog {
  return { [TOOL_EVENT]: 'log', level, data, logger };
}

/** @internal */
export function isToolEvent(value: unknown): value is ToolProgress | ToolLog {
  return typeof value === 'object' && value !== null && TOOL_EVENT in value;
}

/** @internal */
export function isProgress(event: ToolProgress | ToolLog): event is ToolProgress {
  return event[TOOL_EVENT] === 'progress';
}

/** @internal */
export function sendToolEvent(event: ToolProgress | ToolLog, context: McpContext): Promise<void> {
  if (!isProgress(event)) return context.log(event.level, event.data, event.logger);
  const { progress, total, message } = event;
  return context.progress(progress, total, message);
}
