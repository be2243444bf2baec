import type { StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import { handlerMessages } from '../handlers.messages.js';
import type { ArgumentProblem } from './arguments.error.js';
import type { JsonSchema, Misfit, SchemaUse, Validate } from './handler-schema.js';

/** The dialect of the protocol. */
const TARGET = { target: 'draft-2020-12' } as const;

type Standard = StandardSchemaWithJSON['~standard'];
type Outcome = Awaited<ReturnType<Standard['validate']>>;
type Issue = NonNullable<Outcome['issues']>[number];

/** Whether a value claims to be a Standard Schema; those of ArkType are functions. */
export function isStandardSchema(schema: unknown): schema is { readonly '~standard': Partial<Standard> } {
  if ((typeof schema !== 'object' && typeof schema !== 'function') || schema === null) return false;
  const standard = (schema as Record<string, unknown>)['~standard'] as Partial<Standard> | undefined;
  return typeof standard?.validate === 'function';
}

/** @throws Error that says why the schema cannot be converted */
export function jsonOfStandard(
  { '~standard': standard }: { '~standard': Partial<Standard> },
  use: SchemaUse,
): JsonSchema {
  if (!standard.jsonSchema) throw new Error(handlerMessages.noJsonSchema(String(standard.vendor)));
  return standard.jsonSchema[use](TARGET);
}

/** The check of a Standard Schema. Stays synchronous where the schema does. */
export function validateStandard({ '~standard': standard }: StandardSchemaWithJSON, misfit: Misfit): Validate {
  const valueOf = (outcome: Outcome): unknown => {
    if (!outcome.issues || outcome.issues.length === 0) return (outcome as { value: unknown }).value;
    throw misfit(outcome.issues.map(problemOf));
  };
  return (raw) => {
    const outcome = standard.validate(raw);
    return outcome instanceof Promise ? outcome.then(valueOf) : valueOf(outcome);
  };
}

function problemOf({ path = [], message }: Issue): ArgumentProblem {
  return { path: path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.'), message };
}
