import { after, type MaybePromise, settle } from '../../common/promises.js';
import type { HandlerRound, McpContext } from '../../calls/mcp-context.js';
import type { McpHandlerKind } from '../../calls/mcp-execution-context.js';
import type { McpHandlerTarget } from '../../calls/mcp-target.js';
import { logger } from '../../calls/operator-log.js';
import type { FailureOptions } from '../handlers.options.js';
import { isPlainDenial } from '../handlers.errors.js';
import { type FailureReport, inspected, notFound, toReadFailure, toToolFailure } from './handler-failure.js';
import { TooManyBytes, withFilesRead } from './files.js';
import { isPlainText } from './tool-result.js';

/** Runs a handler: a method with everything that Nest puts around it, or a function. */
export interface HandlerRunner {
  /**
   * Runs guards, interceptors, pipes, the method, and filters, in the order of a route. Observables and async iterables are
   * drained: tagged values are sent at once, the one untagged value is the result.
   *
   * @param raw the arguments as the client sent them
   * @returns what the method returned, as interceptors and filters left it, or a promise of it; what it throws, it may throw at once
   * @throws HandlerDeniedError when the caller was not let in
   * @throws McpHandlerSignal when the result is not needed any more
   * @throws any other error of the handler, its interceptors, pipes and filters
   */
  run(raw: unknown, context: McpContext): unknown;
  /**
   * Returns whether the guards that can decide without arguments accept this caller. Never rejects.
   *
   * No cost without guards. With guards: their own work, plus 2 µs, and 0.3 for each guard beyond the first. For a
   * provider that is not static, Nest makes its enhancers for each entry of each list, which costs 20 µs (Nest 12; up
   * to 70 on Nest 11); its constructor runs once for each HTTP request.
   */
  visible(context: McpContext): boolean | Promise<boolean>;
  /**
   * Returns whether all guards, global ones included, accept this caller with these arguments. Nothing else runs. Never rejects.
   *
   * @param raw the arguments as the client sent them
   */
  admits(raw: unknown, context: McpContext): Promise<boolean>;
  /**
   * Does the same, and throws the denial.
   *
   * @throws HandlerDeniedError when a guard refuses, or fails because an argument is missing
   * @throws HttpException of another status
   */
  assertAdmits(raw: unknown, context: McpContext): Promise<void>;
  /**
   * Returns whether the caller may make requests about an earlier call, such as `tasks/get`: not without the scopes of
   * the handler.
   */
  permits(context: McpContext): boolean;
  /** Does the same, and throws the denial. @throws HandlerDeniedError */
  assertPermits(context: McpContext): void;
  /** Whether there are guards that `visible` asks. */
  readonly guarded: boolean;
  /** The method and its class, for `Reflector`; absent: it is no method of the app. */
  readonly metadata?: McpHandlerTarget['metadata'];
  /** Returns the scopes that calls need; absent: none. */
  scopes?(): readonly string[];
  /** Names the other guards on its class and method, for operators; absent: none. */
  guards?(): readonly string[];
}

/** Names the handler that runs, for its failures and for messages. */
export interface ServedHandler {
  readonly kind: McpHandlerKind;
  /** The name of the tool or prompt, the URI of the resource, the URI template of the template. */
  readonly name: string;
  /** Names the method, such as `OrderTools.find`. */
  readonly origin: string;
  readonly failures: FailureOptions;
}

/** A handler whose results and failures are those of the protocol. */
export interface Served<Args, Result> extends Pick<McpHandlerTarget, 'metadata'> {
  /** Names the handler in messages, such as `OrderTools.find`, or says that it was registered at run time. */
  readonly origin: string;
  /**
   * Runs the handler with everything that Nest puts around it.
   *
   * @param args the arguments as the client sent them
   * @returns the result in the form of the protocol
   * @throws an error that becomes a JSON-RPC error; the failure of a tool is part of its result instead
   */
  invoke(args: Args, context: McpContext): MaybePromise<Result>;
  /** Returns whether a list shows the entry to this caller: decided by the guards that do not read arguments. */
  visible(context: McpContext): boolean | Promise<boolean>;
  /**
   * Returns whether all of its guards accept this caller with these arguments, as in `invoke`; nothing else runs. It is
   * for updates of a resource, which a caller gets without a call.
   */
  admits(args: Args, context: McpContext): Promise<boolean>;
  /**
   * Asks the same guards, with the arguments that are known so far: a completion runs another method than its handler's.
   *
   * @returns what `invoke` returns to a caller whom they refuse; `undefined` if they accept it
   * @throws the error that `invoke` throws for a denial
   */
  refusal(args: Partial<Args>, context: McpContext): Promise<Result | undefined>;
  /** Returns whether the caller may make requests about an earlier call: not without the scopes of the handler. */
  permits(context: McpContext): boolean;
  /** Does the same, and throws the denial. @throws HandlerDeniedError */
  assertPermits(context: McpContext): void;
  /** Whether guards decide who sees it: then lists are cached per caller. */
  readonly guarded: boolean;
  /** Returns the scopes that calls need, each once, in alphabetical order. */
  scopes(): string[];
  /** Names the other guards on its class and method, for operators. */
  guards(): readonly string[];
}

/** Decides how the files of a result are sent. Methods of extensions have results of their own. */
const SENT_AS: Partial<Record<McpHandlerKind, 'blocks' | 'contents'>> = {
  tool: 'blocks',
  prompt: 'blocks',
  resource: 'contents',
  template: 'contents',
};

/**
 * Makes a handler whose results and failures are those of the protocol.
 *
 * @param toResult makes the result of the protocol; throws McpHandlerResultError for a value that cannot be sent
 */
export function served<Args, Result>(
  handler: HandlerRunner,
  { kind, name, origin, failures }: ServedHandler,
  toResult: (value: unknown, args: Args) => Result | Promise<Result>,
): Served<Args, Result> {
  const as = SENT_AS[kind];
  /** Returns the name or URI that a client asked for: the URI of a template, if there is one. */
  const asked = (args: Partial<Args>): string =>
    (kind === 'template' ? (args as { uri?: string }).uri : undefined) ?? name;
  /**
   * Returns whether the lists of a caller who was denied do not show the handler: then it is "not found" for this
   * caller (D31).
   */
  const isHidden = async (error: unknown, context: McpContext): Promise<boolean> => {
    if (!handler.guarded || !isPlainDenial(error) || (await handler.visible(context))) return false;
    logger.debug(`${origin} is "not found" for a caller from whom a guard hides it: ${error.message}`);
    return true;
  };
  const withFiles = (value: unknown, context: McpContext): unknown => {
    if (!as || isPlainText(value)) return value;
    const maxBytes = context.mcpCall.bound?.maxReadBytes ?? Infinity;
    return withFilesRead(value, { as, maxBytes, signal: () => context.signal });
  };
  const resultOf = (value: unknown, args: Args, context: McpContext): MaybePromise<Result> =>
    value instanceof TooManyBytes
      ? (context.mcpCall.bound!.insteadOf({}, `more than ${value.read - 1}`) as Result)
      : toResult(value, args);
  /** Returns the result that says that a tool failed. @throws the error of any other handler */
  const failed = async (thrown: unknown, args: Partial<Args>, context: McpContext): Promise<Result> => {
    const error = (await isHidden(thrown, context)) ? notFound(kind, asked(args)) : thrown;
    const report = reportOf({ origin, context });
    const { request } = context;
    if (kind === 'tool') return toToolFailure(error, { kind, name, failures, request, report }) as Result;
    throw toReadFailure(error, { kind, name: asked(args), failures, request, report });
  };
  const inRound = async (round: HandlerRound, args: Args, context: McpContext): Promise<Result> => {
    try {
      const value = await round.valueOf(() => after(handler.run(args, context), (raw) => withFiles(raw, context)));
      return (round.answer as Result | undefined) ?? (await resultOf(value, args, context));
    } catch (thrown) {
      return (round.answer as Result | undefined) ?? (await failed(thrown, args, context));
    } finally {
      round.end();
    }
  };
  const invoke = (args: Args, context: McpContext): MaybePromise<Result> => {
    if (context.round) return inRound(context.round, args, context);
    return settle(
      () =>
        after(handler.run(args, context), (raw) =>
          after(withFiles(raw, context), (value) => resultOf(value, args, context)),
        ),
      (result) => result,
      (thrown) => failed(thrown, args, context),
    );
  };
  return {
    origin,
    metadata: handler.metadata ?? [],
    invoke,
    visible: (context) => handler.visible(context),
    admits: (args, context) => handler.admits(args, context),
    refusal: (args, context) =>
      handler.assertAdmits(args, context).then(
        () => undefined,
        (thrown: unknown) => failed(thrown, args, context),
      ),
    permits: (context) => handler.permits(context),
    assertPermits: (context) => handler.assertPermits(context),
    guarded: handler.guarded,
    scopes: () => [...new Set(handler.scopes?.())].toSorted(),
    guards: () => handler.guards?.() ?? [],
  };
}

/**
 * Logs an error with its causes, where a result that does not fit its schema says why. The failure of a call that has
 * ended mostly comes from its end, so it is logged at `debug`.
 */
export function reportOf({ origin, context }: { origin: string; context: Pick<McpContext, 'aborted'> }): FailureReport {
  return (error) => logger[context.aborted ? 'debug' : 'error'](`${origin} failed: ${inspected(error)}`);
}
