import { flag, type OptionTable, required, texts } from '../core/common/options.js';
import { randomToken } from '../core/common/random-token.js';
import { shown } from '../core/protocol/errors.js';
import { isObject } from '../core/protocol/json-rpc.js';
import type { ConfirmOptions, IdempotencyOptions } from '../core/handlers/decorators/effect-options.js';
import { HANDLER_OPTION_NAMES, type ToolOptions } from '../core/handlers/decorators/handler-options.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';

/** The scopes of a tool of a catalogue, with options. @internal */
export interface CatalogueScopes {
  /** Names the scopes; all of them are required. */
  all: readonly string[];
  /**
   * Whether lists show the tool to callers that lack the scopes, so that their clients can ask for more.
   *
   * @default false
   */
  listed?: boolean;
}

/** The option `confirm` of a tool of a catalogue, with options. @internal */
export interface CatalogueConfirm extends Pick<ConfirmOptions, 'ttlMs' | 'whenUnable'> {
  message: string;
  /** The address of the page, such as `https://shop.example.com/confirm/{id}`. */
  url?: string;
}

/** The option `idempotency` of a tool of a catalogue. @internal */
// oxlint-disable-next-line typescript/no-explicit-any -- a JSON Schema has no type
export interface CatalogueIdempotency extends Omit<IdempotencyOptions<any>, 'key' | 'argument'> {
  /** Names the argument that is the key: the client makes up a text for each thing that it wants done. */
  argument: string;
}

export const SCOPES_TABLE = {
  all: texts(required),
  listed: flag(false),
} satisfies OptionTable<CatalogueScopes>;

/**
 * A tool of a catalogue: data, with the meaning that the options of `@Tool()` have.
 *
 * @publicApi
 */
export interface McpCatalogueTool extends Omit<
  ToolOptions,
  'name' | 'inputSchema' | 'outputSchema' | 'confirm' | 'idempotency' | 'rename' | 'middleware'
> {
  /** The name is unique among the tools that the caller sees. A decorated or registered tool of that name has precedence. */
  name: string;
  /**
   * JSON Schema of the arguments, which are validated by it. A property with `x-mcp-header` is mirrored into a header by clients of
   * 2026-07-28.
   *
   * @default the arguments are not checked
   */
  inputSchema?: Readonly<Record<string, unknown>>;
  /** JSON Schema of the structured result, which may be any JSON. @default no structured content */
  outputSchema?: Readonly<Record<string, unknown>>;
  /**
   * Requires an access token with all of these scopes, as `@RequireScopes()` does, beside those of `call` and its class.
   *
   * @default none
   */
  scopes?: readonly string[] | CatalogueScopes;
  /**
   * Sets a question that the user must answer with yes before the tool runs, such as `Refund {amount} to {customer}?`: `{amount}`
   * stands for the argument `amount`, as JSON.
   *
   * @default the tool runs without a question
   */
  confirm?: string | CatalogueConfirm;
  /** Runs repeats of a call once: those of one caller with the same text in an argument. @default each call runs */
  idempotency?: CatalogueIdempotency;
}

/** What other tools have and these cannot, and what to do in its place. */
const REMEDIES: Readonly<Record<string, string>> = {
  guards: 'It is code, and a tool of a catalogue is data. Put guards on "call": they see the name of the tool.',
  visible:
    'It is code, and a tool of a catalogue is data. Leave the tool out of the lists of callers who may not see it.',
  rename: 'It is for routes, and a tool of a catalogue is none.',
  middleware: 'It is for routes, and a tool of a catalogue is none.',
};

/** The options of other tools that are data, and the scopes. */
const PROPERTIES = ['scopes', ...HANDLER_OPTION_NAMES.tool.filter((name) => !Object.hasOwn(REMEDIES, name))];

/** A tool has at most so many characters as JSON. */
const MAX_CHARACTERS = 262_144;

/** JSON has no number for `Infinity`: it is written as a text that no app can know. */
const NUMBER = `number ${randomToken()} `;

/** Names a tool in messages. @param origin of its catalogue */
export function originOf(tool: unknown, origin: string): string {
  const name = isObject(tool) ? tool['name'] : undefined;
  return `${typeof name === 'string' ? shown(name) : '(without a name)'} of ${origin}`;
}

/**
 * Returns a tool as a text. Tools with equal texts are one, so all that a tool is must be in it: it is read once, and made of the text.
 *
 * @throws TypeError for what is no JSON; McpHandlerDefinitionError for what no tool of a catalogue has
 */
export function textOf(tool: unknown, origin: string): string {
  if (!isObject(tool)) throw new TypeError(`A tool must be an object; got ${shown(tool)}.`);
  const refused = (reason: string): McpHandlerDefinitionError =>
    new McpHandlerDefinitionError(originOf(tool, origin), reason);
  const names = [...Object.keys(tool), ...Object.keys(REMEDIES)];
  const unknown = names.find((name) => !PROPERTIES.includes(name) && tool[name] !== undefined);
  if (unknown !== undefined) {
    const advice = Object.hasOwn(REMEDIES, unknown)
      ? REMEDIES[unknown]!
      : `Return objects with these properties only: ${PROPERTIES.join(', ')}.`;
    throw refused(`it has ${shown(unknown)}, which a tool of a catalogue cannot have. ${advice}`);
  }
  const text = JSON.stringify(
    Object.fromEntries(PROPERTIES.map((name) => [name, tool[name]])),
    (key, value: unknown) => {
      if (typeof value === 'number' && !Number.isFinite(value)) return NUMBER + String(value);
      if (typeof value !== 'function') return value;
      throw refused(
        `its ${shown(key)} is a function. A tool of a catalogue is data: equal tools of all callers are one.`,
      );
    },
  );
  if (text.length <= MAX_CHARACTERS) return text;
  throw refused(`it has ${text.length} characters as JSON; the limit is ${MAX_CHARACTERS}.`);
}

/** Returns the tool of a text. */
export function toolOf(text: string): McpCatalogueTool {
  return JSON.parse(text, (_key, value: unknown) =>
    typeof value === 'string' && value.startsWith(NUMBER) ? Number(value.slice(NUMBER.length)) : value,
  ) as McpCatalogueTool;
}
