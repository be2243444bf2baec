import { excerpt } from './errors.js';
import type * as tools from './sdk-tools.js';
import type { ProtocolError as SdkProtocolError, SpecTypeName } from '@modelcontextprotocol/server';

export type { SpecTypeName } from '@modelcontextprotocol/server';
export type ProtocolError = SdkProtocolError;

/**
 * The SDK's tools: schemas of the specification, JSON Schema, and errors. Loading the SDK takes most of the time that this
 * package needs to load, so it is not loaded by an import of a decorator, but when an endpoint is made: the object is empty
 * until {@link loadSdk} has resolved. All parts of an endpoint depend on `MCP_OPTIONS`, which waits for it.
 *
 * It is one object, and not an export of each tool: the loader hooks of OpenTelemetry and others read exports once.
 */
export const sdk = {} as typeof tools;

/** Loads the SDK's tools, once per process. @internal */
export async function loadSdk(): Promise<void> {
  Object.assign(sdk, await import('./sdk-tools.js'));
}

/** A check by a schema of the specification has this result. @internal */
export interface SpecCheck {
  /** The value with the fields that the type has; `undefined` when there is a problem. */
  readonly value?: unknown;
  readonly problem?: { readonly path: string; readonly message: string };
}

/**
 * Checks a value against a type of the specification, up to its first problem.
 *
 * @returns the value with the fields that the type has, or its first problem
 * @internal
 */
export function checkedBySpec(type: SpecTypeName, value: unknown): SpecCheck {
  // The schemas of the specification are synchronous.
  const outcome = firstProblem(sdk.specTypeSchemas[type], value) as CheckOutcome;
  const [issue] = outcome.issues ?? [];
  if (!issue) return { value: (outcome as { value?: unknown }).value };
  // Clients name members, and some messages of schemas name what they found.
  return { problem: { path: excerpt((issue.path ?? []).map(String).join('.')), message: excerpt(issue.message) } };
}

/**
 * Checks a value against a Standard Schema, up to its first problem where the library can stop there.
 *
 * Zod stops from 4.6 on by `abortEarly`, which its own `z.validate()` sets, except at checks (`.min()`, `.refine()`) and
 * in records. ArkType tells whether there is a problem, without naming it. Other libraries look for all problems.
 *
 * @internal
 */
export function firstProblem(schema: unknown, value: unknown): CheckOutcome | Promise<CheckOutcome> {
  const { '~standard': standard, safeParse, safeParseAsync, allows } = schema as AnyStandard;
  if (standard.vendor === 'zod' && safeParse && safeParseAsync) {
    try {
      return zodOutcome(safeParse.call(schema, value, STOP));
    } catch {
      // A check is asynchronous, or throws: it runs again, as in the schema's own `~standard`.
      return safeParseAsync.call(schema, value, STOP).then(zodOutcome);
    }
  }
  if (standard.vendor === 'arktype' && allows && !allows.call(schema, value)) return UNNAMED_PROBLEM;
  return standard.validate(value) as CheckOutcome | Promise<CheckOutcome>;
}

const STOP = { abortEarly: true };
const UNNAMED_PROBLEM = {
  issues: [{ message: 'does not match the schema. It has too many values to say where: send fewer to learn it' }],
};

function zodOutcome({ success, data, error }: ZodOutcome): CheckOutcome {
  return success ? { value: data } : { issues: error!.issues };
}

/** The outcome of a check by a Standard Schema. @internal */
export type CheckOutcome =
  { readonly value: unknown; readonly issues?: undefined } | { readonly issues: readonly CheckIssue[] };

/** @internal */
export interface CheckIssue {
  readonly message: string;
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined;
}

interface ZodOutcome {
  readonly success: boolean;
  readonly data?: unknown;
  readonly error?: { readonly issues: readonly CheckIssue[] };
}

interface AnyStandard {
  readonly '~standard': { readonly vendor: string; validate(value: unknown): unknown };
  readonly safeParse?: (value: unknown, context: object) => ZodOutcome;
  readonly safeParseAsync?: (value: unknown, context: object) => Promise<ZodOutcome>;
  readonly allows?: (value: unknown) => boolean;
}

/** Makes the error for parameters that are none of a method. @internal */
export function invalidParams(message: string): ProtocolError {
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, message);
}

/** Replaces the error that asks for a URL: revision 2026-07-28 asks in its results. @internal */
export function withoutUrlRequired(error: unknown): unknown {
  const required: number = sdk.ProtocolErrorCode.UrlElicitationRequired;
  return error instanceof sdk.ProtocolError && error.code === required
    ? new sdk.ProtocolError(
        sdk.ProtocolErrorCode.InternalError,
        'Revision 2026-07-28 has no error for a URL elicitation. Ask with ctx.elicit() and mode "url", or return inputRequired().',
      )
    : error;
}
