import type { GetPromptResult, InputRequiredResult, ReadResourceResult } from '@modelcontextprotocol/server';
import { Logger } from '@nestjs/common';
import type { McpContext } from '../../context/mcp-context.js';
import type { McpHandlerKind } from '../../context/mcp-execution-context.js';
import type { FailureOptions } from '../handlers.options.js';
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
  /** The call that it served. */
  readonly context: Pick<McpContext, 'aborted'>;
  readonly failures: FailureOptions;
}

/** Of a handler whose results have a form that interceptors can break. */
export interface FormedHandler extends RanHandler {
  /** Made by {@link interceptorNotice}. */
  readonly notice: (made: unknown) => void;
}

/** Runs a handler. @param changed takes what its method returned, if interceptors made something else of it */
type Run = (changed: (returned: unknown) => void) => Promise<unknown>;

const logger = new Logger('McpStreamable');

/** Runs a tool. @throws what is a JSON-RPC error, a denial or a signal; everything else is in the result */
export async function toolOutcome(run: Run, ran: FormedHandler, check?: OutputCheck): Promise<ToolResult> {
  try {
    return await formed(run, (value) => toToolResult(value, check), ran);
  } catch (error) {
    return toToolFailure(error, { kind: 'tool', name: ran.name, failures: ran.failures, report: reportOf(ran) });
  }
}

/** Reads a resource. @param uri as the client asked for it @throws ProtocolError, HandlerDeniedError, HandlerSignal */
export async function resourceOutcome(
  run: () => Promise<unknown>,
  ran: RanHandler & { readonly kind: McpHandlerKind },
  uri: string,
  mimeType?: string,
): Promise<ReadResourceResult | InputRequiredResult> {
  try {
    return toResourceResult(uri, mimeType, await run());
  } catch (error) {
    throw toReadFailure(error, { kind: ran.kind, name: uri, failures: ran.failures, report: reportOf(ran) });
  }
}

/** Gets a prompt. @throws ProtocolError, HandlerDeniedError, HandlerSignal */
export async function promptOutcome(run: Run, ran: FormedHandler): Promise<GetPromptResult | InputRequiredResult> {
  try {
    return await formed(run, toPromptResult, ran);
  } catch (error) {
    throw toReadFailure(error, { kind: 'prompt', name: ran.name, failures: ran.failures, report: reportOf(ran) });
  }
}

/** @throws HandlerResultError, and whatever the handler threw */
async function formed<Result>(
  run: Run,
  form: (value: unknown) => Result | Promise<Result>,
  { notice }: FormedHandler,
): Promise<Result> {
  let original: { readonly value: unknown } | undefined;
  const value = await run((returned) => (original = { value: returned }));
  try {
    const result = form(value);
    return result instanceof Promise ? await result : result;
  } catch (error) {
    if (original && (await fits(original.value, form))) notice(value);
    throw error;
  }
}

async function fits(value: unknown, form: (value: unknown) => unknown): Promise<boolean> {
  try {
    await form(value);
    return true;
  } catch {
    return false;
  }
}

/** Says once what interceptors made of a result that was right before. */
export function interceptorNotice(origin: string): (made: unknown) => void {
  let said = false;
  return (made) => {
    if (said) return;
    said = true;
    logger.warn(invocationMessages.brokenByInterceptor(origin, made));
  };
}

/**
 * Causes included: a result that does not fit its schema says there what does not fit. That a call failed which nobody waits
 * for any more, mostly for that reason, is not worth an operator's while.
 */
export function reportOf({ origin, context }: Pick<RanHandler, 'origin' | 'context'>): FailureReport {
  return (error) => {
    const text = invocationMessages.failed(origin, inspected(error));
    if (context.aborted) logger.debug(text);
    else logger.error(text);
  };
}
