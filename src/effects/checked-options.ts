import {
  count,
  functionOf,
  McpOptionError,
  oneOf,
  option,
  type OptionTable,
  refused,
  type Resolved,
  resolveGroup,
  text,
  timer,
} from '../core/common/options.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import type {
  ConfirmMessage,
  ConfirmOptions,
  IdempotencyOptions,
  ToolConfirmOptions,
} from '../core/handlers/decorators/effect-options.js';
import { McpHandlerDefinitionError, namesText } from '../core/handlers/handlers.errors.js';
import { shown } from '../core/protocol/errors.js';
import { QuestionText } from './question-text.js';

const message = option<string | ConfirmMessage<never>, undefined>(undefined, (given, name) => {
  if (typeof given === 'function' || (typeof given === 'string' && given.trim() !== '')) return given;
  throw refused(name, 'a text that is not empty, or a function that returns one', given);
});

/** Stands for the id of a page in its address. */
const PAGE = '{id}';

function isAddress(text: unknown): boolean {
  if (typeof text !== 'string' || !text.includes(PAGE)) return false;
  return /^https?:/.test(text) && URL.canParse(text.replaceAll(PAGE, 'id'));
}

const CONFIRM_TABLE = {
  message,
  ttlMs: timer(300_000),
  whenUnable: oneOf('refuse', ['refuse', 'url']),
  url: option<NonNullable<ConfirmOptions['url']>, undefined>(undefined, (given, name) => {
    if (typeof given === 'function' || isAddress(given)) return given;
    throw refused(
      name,
      `an absolute URL with ${PAGE} in it, or a function that returns the address of the page`,
      given,
    );
  }),
} satisfies OptionTable<ToolConfirmOptions<never>>;

const IDEMPOTENCY_TABLE = {
  key: functionOf<NonNullable<IdempotencyOptions<never>['key']>, undefined>(undefined),
  argument: text(undefined),
  ttlMs: count(86_400_000),
  maxBytes: count(65_536),
  maxKeys: count(1_000, { infinite: true }),
  errors: oneOf('keep', ['keep', 'free']),
} satisfies OptionTable<Omit<IdempotencyOptions<never>, 'argument'> & { argument?: string }>;

export interface ToolConfirm extends Omit<Resolved<typeof CONFIRM_TABLE>, 'message' | 'url'> {
  readonly message: ConfirmMessage<never> | QuestionText;
  /** Returns the address of a page. */
  readonly url: ((id: string) => string) | undefined;
}

export type ToolIdempotency = Resolved<typeof IDEMPOTENCY_TABLE>;

/** Reads the option `confirm`. @returns `undefined` without it @throws McpHandlerDefinitionError */
export function confirmOf(target: McpHandlerTarget): ToolConfirm | undefined {
  const { kind, origin } = target;
  const given = kind === 'tool' ? target.option('confirm') : undefined;
  if (given === undefined) return undefined;
  const options = typeof given === 'object' ? given : { message: given };
  const { message, url, ...rest } = resolved(CONFIRM_TABLE, options, 'confirm', origin);
  if ((rest.whenUnable === 'url') !== (url !== undefined)) {
    const reason = `its "confirm" has ${url ? '"url" without "whenUnable: \'url\'"' : '"whenUnable: \'url\'" without "url", the address of the page'}. Give it both, or neither.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if (message !== undefined) {
    return {
      ...rest,
      message: typeof message === 'string' ? new QuestionText(message, target) : message,
      url: typeof url === 'string' ? (id) => url.replaceAll(PAGE, id) : url,
    };
  }
  throw new McpHandlerDefinitionError(origin, 'its "confirm" has no "message". Give it the question for the user.');
}

/** Reads the option `idempotency`. @returns `undefined` without it @throws McpHandlerDefinitionError */
export function idempotencyOf(target: McpHandlerTarget): ToolIdempotency | undefined {
  const { kind, origin, inputSchema } = target;
  const given = kind === 'tool' ? target.option('idempotency') : undefined;
  if (given === undefined) return undefined;
  const options = resolved(IDEMPOTENCY_TABLE, given, 'idempotency', origin);
  const { key, argument } = options;
  if ((key === undefined) === (argument === undefined)) {
    const reason = `its "idempotency" has ${key ? 'both "key" and "argument"' : 'neither "key" nor "argument"'}. Give it one of them: a function that returns the key of a call, or the name of the argument that is the key.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }
  if (argument === undefined) return options;
  const { properties } = inputSchema as { readonly properties?: object };
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
