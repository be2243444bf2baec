import { Logger } from '@nestjs/common';

/** The library's logger, as it appears in the app's log. */
export const logger = new Logger('McpStreamable');

/** Logs an error that is not sent to clients, with its stack. */
export function logError(error: unknown): void {
  logger.error(error instanceof Error ? error.message : error, (error as Error)?.stack);
}
