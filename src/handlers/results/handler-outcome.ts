import type { GetPromptResult, InputRequiredResult, ReadResourceResult } from '@modelcontextprotocol/server';
import { Logger } from '@nestjs/common';
import type { McpHandlerKind } from '../../call/mcp-execution-context.js';
import { invocationMessages } from '../invocation.messages.js';
import { type FailureReport, toReadFailure, toToolFailure } from './handler-failure.js';
import { inspected } from './inspected.js';
import { toPromptResult } from './prompt-result.js';
import { toResourceResult } from './resource-result.js';
import { type OutputCheck, toToolResult, type ToolResult } from './tool-result.js';

/** Which handler ran, for its results and for messages. */
export interface RanHandler {
  readonly name: string;
  /** `OrderTools.find`. */
  readonly origin: string;
}

const logger = new Logger('McpStreamable');

/** Runs a tool. @throws what is a JSON-RPC error, a denial or a signal; everything else is in the result */
export async function toolOutcome(
  run: () => Promise<unknown>,
  { name, origin }: RanHandler,
  check?: OutputCheck,
): Promise<ToolResult> {
  try {
    return await toToolResult(await run(), check);
  } catch (error) {
    return toToolFailure(error, name, reportOf(origin));
  }
}

/** Reads a resource. @param uri as the client asked for it @throws ProtocolError, HandlerDeniedError, HandlerSignal */
export async function resourceOutcome(
  run: () => Promise<unknown>,
  { origin, kind }: RanHandler & { readonly kind: McpHandlerKind },
  uri: string,
  mimeType?: string,
): Promise<ReadResourceResult | InputRequiredResult> {
  try {
    return toResourceResult(uri, mimeType, await run());
  } catch (error) {
    throw toReadFailure(error, kind, uri, reportOf(origin));
  }
}

/** Gets a prompt. @throws ProtocolError, HandlerDeniedError, HandlerSignal */
export async function promptOutcome(
  run: () => Promise<unknown>,
  { name, origin }: RanHandler,
): Promise<GetPromptResult | InputRequiredResult> {
  try {
    return toPromptResult(await run());
  } catch (error) {
    throw toReadFailure(error, 'prompt', name, reportOf(origin));
  }
}

/** Causes included: a result that does not fit its schema says there what does not fit. */
export function reportOf(origin: string): FailureReport {
  return (error) => logger.error(invocationMessages.failed(origin, inspected(error)));
}
