import { specTypeSchemas } from '../../wire/spec.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import { frozenJson } from '../schema/frozen-json.js';

type ListedType = 'Tool' | 'Resource' | 'ResourceTemplate' | 'Prompt';

/**
 * What lists show of a handler, exactly as it is sent: fields without a value are absent.
 *
 * @throws HandlerDefinitionError when it is not what the specification says: one such entry would break a whole list
 */
export function wireOf<T extends object>(type: ListedType, fields: T, origin: string): Readonly<T> {
  const wire = frozenJson(fields);
  const outcome = specTypeSchemas[type]['~standard'].validate(wire);
  const issues = 'issues' in outcome ? (outcome.issues ?? []) : [];
  if (issues.length === 0) return wire;
  const problems = issues.map(({ path = [], message }) => ({ path: path.map(String).join('.'), message }));
  throw new HandlerDefinitionError(origin, handlerMessages.notSpecified(type, problems));
}

/** @throws HandlerDefinitionError */
export function assertName(option: string, value: unknown, origin: string): void {
  if (typeof value === 'string' && value.trim().length > 0) return;
  throw new HandlerDefinitionError(origin, handlerMessages.noName(option, value));
}
