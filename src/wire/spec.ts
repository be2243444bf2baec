import { specTypeSchemas, type SpecTypeName } from '@modelcontextprotocol/server';

/**
 * The only import of the SDK's tools: schemas of the specification, JSON Schema, errors. The room `sdk`
 * imports its servers, transports and protocol classes.
 */
export {
  classifyInboundRequest,
  fromJsonSchema,
  inputRequired,
  isInputRequiredResult,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  specTypeSchemas,
} from '@modelcontextprotocol/server';
export { AjvJsonSchemaValidator } from '@modelcontextprotocol/server/validators/ajv';
export type { SpecTypeName } from '@modelcontextprotocol/server';

/** The result of a check by a schema of the specification. @internal */
export interface SpecCheck {
  /** With the fields that the type has; `undefined` when there is a problem. */
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
  return { problem: { path: (issue.path ?? []).map(String).join('.'), message: issue.message } };
}

interface LooseSchema {
  readonly '~standard': {
    validate(value: unknown): {
      readonly value?: unknown;
      readonly issues?: readonly { readonly message: string; readonly path?: readonly unknown[] }[];
    };
  };
}
