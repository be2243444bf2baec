import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { McpHandlerDefinitionError, namesText } from '../core/handlers/handlers.errors.js';
import { printable, shown } from '../core/protocol/errors.js';
import { isObject } from '../core/protocol/json-rpc.js';

/** A question that is longer is not asked: the user would not read it. */
export const MAX_MESSAGE = 4_000;

/** Stands in a text for the argument of this name. */
const PLACE = /\{([^{}]*)\}/;
/** Stands for an argument that the call does not have; a text is quoted. */
const NOTHING = '(nothing)';

/**
 * A text of the option `confirm`, such as `Delete the order {id}?`.
 *
 * A value stands there as JSON, with characters escaped that the user would not see as they are: the model writes the arguments, and
 * one must not look like a part of the question, or hide another one. No value is shortened: the user confirms what is shown.
 */
export class QuestionText {
  /** The names of arguments are at the odd positions. */
  readonly #parts: readonly string[];

  /** @throws McpHandlerDefinitionError for a place of an argument that is not in the schema of the tool */
  constructor(
    readonly template: string,
    { origin, inputSchema }: McpHandlerTarget,
  ) {
    if (template.length > MAX_MESSAGE) {
      const reason = `its "confirm" has ${template.length} characters; a question has at most ${MAX_MESSAGE}.`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    const { properties } = (inputSchema ?? {}) as { readonly properties?: object };
    const known = Object.keys(properties ?? {});
    this.#parts = template.split(PLACE);
    const unknown = this.#parts.find((part, index) => index % 2 === 1 && !known.includes(part));
    if (unknown === undefined) return;
    const reason = `its "confirm" has the place {${shown(unknown).slice(1, -1)}}, and no argument of this name is in its schema. ${namesText(known)}`;
    throw new McpHandlerDefinitionError(origin, reason);
  }

  /**
   * Returns the question about a call.
   *
   * @param args the arguments as the method gets them
   * @param sent as the client sent them
   */
  of(args: unknown, sent: Readonly<Record<string, unknown>>): string {
    let question = '';
    for (const [index, part] of this.#parts.entries()) {
      question += index % 2 === 0 ? part : valueOf(part, args, sent);
      if (question.length > MAX_MESSAGE) break;
    }
    return question;
  }
}

/** Returns an argument for the user; what the schema made of it, if that has its name. */
function valueOf(name: string, args: unknown, sent: Readonly<Record<string, unknown>>): string {
  const holder = [args, sent].find((each) => isObject(each) && Object.hasOwn(each, name)) as typeof sent | undefined;
  const value = holder?.[name];
  if (value === undefined) return NOTHING;
  // A longer text is not asked: it need not be escaped.
  const json = JSON.stringify(
    typeof value === 'string' ? value.slice(0, MAX_MESSAGE + 1) : value,
    (_key, part: unknown) => (typeof part === 'bigint' ? String(part) : part),
  ) as string | undefined;
  return json === undefined ? NOTHING : printable(json.slice(0, MAX_MESSAGE + 1));
}
