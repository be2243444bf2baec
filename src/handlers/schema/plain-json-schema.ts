import type { jsonSchemaValidator } from '@modelcontextprotocol/server';
import { fromJsonSchema } from '../../wire/spec.js';
import type { ArgumentProblem } from './arguments.error.js';
import type { JsonSchema, Misfit, Validate } from './handler-schema.js';

/**
 * The check of a JSON Schema, compiled here and now.
 *
 * @throws Error for a schema that is not valid, refers to what is not there, or declares a dialect that is not known
 */
export function validatePlain(schema: JsonSchema, validator: jsonSchemaValidator, misfit: Misfit): Validate {
  const { validate } = fromJsonSchema(schema, validator)['~standard'];
  return (raw) => {
    const outcome = validate(raw) as { value: unknown; issues?: readonly { message: string }[] };
    if (!outcome.issues) return outcome.value;
    throw misfit(outcome.issues.flatMap(({ message }) => problemsOf(message)));
  };
}

/** Ajv's one text for all problems: `data/a/0 must be string, data must have required property 'b'`. */
const PROBLEM = /(?:^|, )data(?<pointer>(?:\/[^ ]*)?) (?<message>.+?)(?=, data[ /]|$)/gs;

function problemsOf(text: string): ArgumentProblem[] {
  const problems = [...text.matchAll(PROBLEM)].map(({ groups }) => ({
    path: pathOf(groups!.pointer!),
    message: groups!.message!,
  }));
  return problems.length > 0 ? problems : [{ path: '', message: text }];
}

/** `/address/lines/0` → `address.lines.0` */
function pathOf(pointer: string): string {
  const parts = pointer.split('/').slice(1);
  return parts.map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~')).join('.');
}
