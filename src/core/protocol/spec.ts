import { excerpt } from './errors.js';
import type * as tools from './sdk-tools.js';
import type { ProtocolError as SdkProtocolError, SpecTypeName } from '@modelcontextprotocol/server';

export type { SpecTypeName } from '@modelcontextprotocol/server';
export type ProtocolError = SdkProtocolError;

type Tools = typeof tools;

/**
 * # The SDK's tools
 *
 * Schemas of the specification, JSON Schema, and errors. Loading the SDK takes most of the time that this package needs to
 * load, so it is not loaded by an import of a decorator, but when an endpoint is made: until {@link loadSdk} has resolved,
 * these are `undefined`. All parts of an endpoint depend on `MCP_OPTIONS`, which waits for it.
 */
/* oxlint-disable import/no-mutable-exports -- each is assigned once, by loadSdk() */
export let classifyInboundRequest: Tools['classifyInboundRequest'];
export let fromJsonSchema: Tools['fromJsonSchema'];
export let inputRequired: Tools['inputRequired'];
export let isInputRequiredResult: Tools['isInputRequiredResult'];
export let MissingRequiredClientCapabilityError: Tools['MissingRequiredClientCapabilityError'];
export let ProtocolError: Tools['ProtocolError'];
export let ProtocolErrorCode: Tools['ProtocolErrorCode'];
export let ResourceNotFoundError: Tools['ResourceNotFoundError'];
export let specTypeSchemas: Tools['specTypeSchemas'];
export let AjvJsonSchemaValidator: Tools['AjvJsonSchemaValidator'];
/* oxlint-enable import/no-mutable-exports */

/** Loads the SDK's tools, once per process. @internal */
export async function loadSdk(): Promise<void> {
  ({
    classifyInboundRequest,
    fromJsonSchema,
    inputRequired,
    isInputRequiredResult,
    MissingRequiredClientCapabilityError,
    ProtocolError,
    ProtocolErrorCode,
    ResourceNotFoundError,
    specTypeSchemas,
    AjvJsonSchemaValidator,
  } = await import('./sdk-tools.js'));
}

/** A check by a schema of the specification has this result. @internal */
export interface SpecCheck {
  /** The value with the fields that the type has; `undefined` when there is a problem. */
  readonly value?: unknown;
  readonly problem?: { readonly path: string; readonly message: string };
}

/**
 * Checks a value against a type of the specification.
 *
 * @returns the value with the fields that the type has, or its first problem
 * @internal
 */
export function checkedBySpec(type: SpecTypeName, value: unknown): SpecCheck {
  const schema = specTypeSchemas[type] as unknown as LooseSchema;
  const outcome = schema['~standard'].validate(value);
  const [issue] = outcome.issues ?? [];
  if (!issue) return { value: outcome.value };
  // Clients name members, and some messages of schemas name what they found.
  return { problem: { path: excerpt((issue.path ?? []).map(String).join('.')), message: excerpt(issue.message) } };
}

interface LooseSchema {
  readonly '~standard': {
    validate(value: unknown): {
      readonly value?: unknown;
      readonly issues?: readonly { readonly message: string; readonly path?: readonly unknown[] }[];
    };
  };
}
