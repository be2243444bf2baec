import type { CanActivate, Type } from '@nestjs/common';
import { check, McpOptionError } from '../base/option-checks.js';
import { handlerMessages } from './handlers.messages.js';

/** How the handlers of an endpoint are listed. @publicApi */
export interface McpHandlerOptions {
  /**
   * Entries per page of a list of tools, resources, templates or prompts. Lower: smaller answers, but clients that do not
   * ask for further pages miss the rest.
   *
   * @default 1000
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/pagination
   */
  pageSize?: number;
  /**
   * Classes of global guards (`APP_GUARD`, `useGlobalGuards()`) that also decide what lists show a caller. The guards of
   * classes and methods always do, unless they ask for arguments. Each guard named here runs once for each entry of a
   * list: name none that counts calls, or that looks up a token.
   *
   * @default none
   */
  listGuards?: readonly Type<CanActivate>[];
}

/** Every option, decided. */
export type ResolvedHandlerOptions = Required<McpHandlerOptions>;

/** The injection token of the {@link ResolvedHandlerOptions}. */
export const HANDLER_OPTIONS = Symbol('nestjs-mcp-streamable:handler-options');

/** @throws McpOptionError */
export function resolveHandlerOptions({
  pageSize = 1_000,
  listGuards = [],
}: McpHandlerOptions = {}): ResolvedHandlerOptions {
  const classes = Array.isArray(listGuards) && listGuards.every((guard) => typeof guard === 'function');
  if (!classes) throw new McpOptionError('listGuards', handlerMessages.notGuards());
  return { pageSize: check.count('pageSize', pageSize), listGuards };
}
