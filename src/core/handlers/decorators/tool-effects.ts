import { McpOptionError, type Resolved, resolveGroup } from '../../common/options.js';
import { shown } from '../../protocol/errors.js';
import { McpHandlerDefinitionError, namesText } from '../handlers.errors.js';
import type { JsonSchema } from '../schema/handler-schema.js';
import { CONFIRM_TABLE, IDEMPOTENCY_TABLE, type ConfirmMessage } from './effect-options.js';
import type { ToolOptions } from './handler-options.js';

/** The checked options of a tool with effects. */
export interface ToolEffects {
  readonly confirm?: ToolConfirm;
  readonly idempotency?: ToolIdempotency;
}

export interface ToolConfirm extends Resolved<typeof CONFIRM_TABLE> {
  readonly message: string | ConfirmMessage<never>;
}

export type ToolIdempotency = Resolved<typeof IDEMPOTENCY_TABLE>;

/**
 * Reads the options `confirm` and `idempotency`.
 *
 * @param schema of the arguments
 * @returns nothing for a tool without them: its calls pay nothing
 * @throws McpHandlerDefinitionError
 */
export function effectsOf(
  { confirm, idempotency }: ToolOptions,
  schema: JsonSchema,
  origin: string,
): { effects?: ToolEffects } {
  if (confirm === undefined && idempotency === undefined) return {};
  const effects = {
    ...(confirm !== undefined && { confirm: confirmOf(confirm, origin) }),
    ...(idempotency !== undefined && { idempotency: idempotencyOf(idempotency, schema, origin) }),
  };
  return { effects };
}

function confirmOf(given: NonNullable<ToolOptions['confirm']>, origin: string): ToolConfirm {
  const options = typeof given === 'object' ? given : { message: given };
  const { message, ...rest } = resolved(CONFIRM_TABLE, options, 'confirm', origin);
  if ((rest.whenUnable === 'url') !== (rest.url !== undefined)) {
    const reason = `its "confirm" has ${rest.url ? '"url" without "whenUnable: \'url\'"' : '"whenUnable: \'url\'" without "url", a function that returns the address of the page'}. Give it both, or neither.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if (message !== undefined) return { message, ...rest };
  throw new McpHandlerDefinitionError(origin, 'its "confirm" has no "message". Give it the question for the user.');
}

function idempotencyOf(
  given: NonNullable<ToolOptions['idempotency']>,
  { properties }: JsonSchema,
  origin: string,
): ToolIdempotency {
  const options = resolved(IDEMPOTENCY_TABLE, given, 'idempotency', origin);
  const { key, argument } = options;
  if ((key === undefined) === (argument === undefined)) {
    const reason = `its "idempotency" has ${key ? 'both "key" and "argument"' : 'neither "key" nor "argument"'}. Give it one of them: a function that returns the key of a call, or the name of the argument that is the key.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if (argument === undefined) return options;
  const known = (properties ?? {}) as Record<string, { readonly type?: unknown } | undefined>;
  if (!Object.hasOwn(known, argument)) {
    const reason = `its "idempotency" names the argument ${shown(argument)}, which is not in its schema. ${namesText(Object.keys(known))}`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  const type = known[argument]?.type;
  if (type === undefined || type === 'string') return options;
  const reason = `its "idempotency" names the argument "${argument}", which is of the type ${shown(type)}. A key is a string.`;
  throw new McpHandlerDefinitionError(origin, reason);
}

function resolved<Table extends Parameters<typeof resolveGroup>[0]>(
  table: Table,
  given: unknown,
  name: string,
  origin: string,
): Resolved<Table> {
  try {
    return resolveGroup(table, given, name);
  } catch (error) {
    if (!(error instanceof McpOptionError)) throw error;
    throw new McpHandlerDefinitionError(origin, `its "${name}" cannot be used: ${error.message}`, { cause: error });
  }
}
