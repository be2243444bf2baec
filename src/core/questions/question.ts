import type { InputRequest, JsonSchemaType, JsonSchemaValidator } from '@modelcontextprotocol/server';
import { randomUUID } from 'node:crypto';
import type { OutboundMessage } from '../calls/mcp-call.js';
import type { McpElicitation, McpForm, McpQuestion } from '../calls/mcp-questions.js';
import { McpServerRequestError } from '../calls/server-request.error.js';
import { HandlerSuspended } from '../calls/handler-signals.js';
import { flatSchema } from '../handlers/schema/listed-schema.js';
import { isStandardSchema } from '../handlers/schema/schema-compiler.js';
import {
  type Capabilities,
  capabilityNames,
  missingCapabilities,
  offersTools,
  requiredCapabilities,
  usesTools,
} from '../protocol/client-capabilities.js';
import { firstProblem, sdk } from '../protocol/spec.js';
import { shown } from '../protocol/errors.js';
import { isObject } from '../protocol/json-rpc.js';
import { BoundedJsonSchemas } from '../protocol/json-schema.js';
import { isLarger, MAX_CHECKED_VALUES } from '../protocol/values.js';

/** Thrown when a handler's question cannot be asked; the message is for the developer and the client. */
export class QuestionError extends Error {}

/**
 * One question of a handler, checked, and in the form of the protocol.
 *
 * Its answer comes from a client: {@link accept} validates it.
 */
export class Question {
  /** Checks a question. @throws QuestionError, ProtocolError when it cannot be asked; what reading it throws */
  static of(key: string, question: McpQuestion, schemas: RequestedSchemas): Question {
    if (key === '' || key === '__proto__')
      throw new QuestionError(
        `${shown(key)} cannot be the key of a question: use a non-empty string other than "__proto__".`,
      );
    const { method, params } = (question ?? {}) as Partial<McpQuestion>;
    if (method === 'roots/list') {
      // Clients in Go refuse a question without parameters.
      return new Question(key, { method, params: params ?? {} }, fits(sdk.specTypeSchemas.ListRootsResult));
    }
    if (typeof params === 'object' && params !== null) {
      if (method === 'elicitation/create') return elicitation(key, params, schemas);
      if (method === 'sampling/createMessage') return sampling(key, params);
    }
    throw new QuestionError(
      `The question "${key}" is ${shown(question)}. A question is { method, params } with the method "elicitation/create", "sampling/createMessage" or "roots/list".`,
    );
  }

  constructor(
    readonly key: string,
    /** The question in the form of revision 2026-07-28. */
    readonly embedded: InputRequest,
    /** Validates an answer. @returns the answer; `undefined` when it does not match this question */
    readonly accept: (answer: unknown) => object | undefined,
    /** The question in the form of the revisions before. */
    readonly request: OutboundMessage = embedded,
  ) {}

  /** Returns the capabilities that the client must have declared. */
  get required(): Capabilities {
    const { method, params } = this.request;
    return requiredCapabilities(method, params);
  }

  /** Returns the error for an answer that {@link accept} refuses. */
  mismatched(): Error {
    const text = `The client's answer to the question "${this.key}" (${this.request.method}) does not match the question, or has more than ${MAX_CHECKED_VALUES} values.`;
    return new McpServerRequestError('INVALID_ANSWER', text);
  }

  /** Returns the error for a client that has repeated its request without a valid answer. */
  unanswered(times: number): Error {
    const text = `The client repeated the request ${times} times without a valid answer to the question "${this.key}" (${this.request.method}).`;
    return new McpServerRequestError('INVALID_ANSWER', text);
  }

  isSameAs(other: Question): boolean {
    return JSON.stringify(this.embedded) === JSON.stringify(other.embedded);
  }
}

function sampling(key: string, params: Params<'sampling/createMessage'>): Question {
  assertPaired(params.messages);
  const acceptAny = fits(sdk.specTypeSchemas.CreateMessageResultWithTools);
  const accept = (answer: unknown): object | undefined => {
    const result = acceptAny(answer);
    return result && !offersTools(params) && usesTools(result) ? undefined : result;
  };
  return new Question(key, { method: 'sampling/createMessage', params }, accept);
}

function elicitation(key: string, params: McpElicitation, schemas: RequestedSchemas): Question {
  const accept = fits(sdk.specTypeSchemas.ElicitResult);
  const method = 'elicitation/create';
  if (params.mode === 'url') {
    const { elicitationId = randomUUID(), ...asked } = params;
    const embedded = sdk.inputRequired.elicitUrl(asked);
    return new Question(key, embedded, accept, { method, params: { ...embedded.params, elicitationId } });
  }
  const embedded = sdk.inputRequired.elicit({ ...params, requestedSchema: formSchema(params.requestedSchema) });
  const { requestedSchema } = embedded.params as { requestedSchema: JsonSchemaType };
  const validate = validatorOf(key, requestedSchema, schemas);
  const acceptForm = (answer: unknown): object | undefined => {
    const result = accept(answer);
    return result?.action !== 'accept' || validate(result.content ?? {}).valid ? result : undefined;
  };
  // The mode may be left out; clients that know no other did not have it.
  return new Question(key, embedded, acceptForm, { method, params: { mode: 'form', ...embedded.params } });
}

/** Returns the schema of a form, whose JSON Schema has no reference and no dialect, such as `z.object().meta({ id })` has. */
function formSchema(schema: McpForm['requestedSchema']): McpForm['requestedSchema'] {
  if (!isStandardSchema(schema)) return isObject(schema) ? (flatSchema(schema) as typeof schema) : schema;
  const { '~standard': standard } = schema;
  const { jsonSchema } = standard as Partial<typeof standard>;
  if (!jsonSchema) return schema;
  const input: typeof jsonSchema.input = (options) => {
    const { $schema: _, ...json } = flatSchema(jsonSchema.input(options));
    return json;
  };
  return { '~standard': { ...standard, jsonSchema: { ...jsonSchema, input } } };
}

/** Compiles the schema of a form. @throws QuestionError */
function validatorOf(key: string, schema: JsonSchemaType, schemas: RequestedSchemas): JsonSchemaValidator<unknown> {
  try {
    return schemas.getValidator(schema);
  } catch (error) {
    throw new QuestionError(`The "requestedSchema" of the question "${key}" cannot be used: ${String(error)}`, {
      cause: error,
    });
  }
}

/**
 * Checks that results of tools answer the uses of the message before, and stand alone.
 *
 * @throws ProtocolError -32602
 * @see https://modelcontextprotocol.io/specification/2025-11-25/client/sampling#message-content-constraints
 */
function assertPaired(messages: Params<'sampling/createMessage'>['messages']): void {
  if (!Array.isArray(messages)) return;
  const blocksOf = (index: number) => [messages.at(index)?.content ?? []].flat();
  const [last, previous] = [blocksOf(-1), messages.length > 1 ? blocksOf(-2) : []];
  const results = last.filter((block) => block.type === 'tool_result');
  const uses = previous.filter((block) => block.type === 'tool_use');
  const refuse = (text: string): never => {
    throw new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, text);
  };
  if (results.length > 0 && results.length < last.length)
    refuse('The last message has a "tool_result", so it must contain nothing else.');
  if (results.length > 0 && uses.length === 0)
    refuse('The last message has a "tool_result", but the message before it has no "tool_use" that it answers.');
  const [used, answered] = [new Set(uses.map(({ id }) => id)), new Set(results.map(({ toolUseId }) => toolUseId))];
  const paired = used.size === answered.size && [...used].every((id) => answered.has(id));
  if (uses.length > 0 && !paired)
    refuse(
      'The "tool_result" blocks of the last message must answer exactly the "tool_use" blocks of the message before it.',
    );
}

/** Returns the signal that leaves a handler until the client has answered. */
export function suspended(questions: ReadonlyMap<string, Question>): HandlerSuspended {
  const keys = Array.from(questions.keys(), (each) => `"${each}"`).join(', ');
  return new HandlerSuspended(`The client must first answer ${keys}; then the handler runs again.`);
}

/** Returns the error for a client that did not declare what a question needs. */
export function lacking({ key, embedded, required }: Question, declared: Capabilities): Error | undefined {
  const requiredCapabilities = missingCapabilities(required, declared);
  if (!requiredCapabilities) return undefined;
  const names = capabilityNames(requiredCapabilities, declared);
  const text = `The question "${key}" (${embedded.method}) cannot be asked: this client did not declare the capability "${names}".`;
  return new sdk.MissingRequiredClientCapabilityError({ requiredCapabilities }, text);
}

/** Returns the error that a handler may catch, to do without the answer; else the call ends with its cause (M6). */
export function unable(refusal: Error): McpServerRequestError {
  return new McpServerRequestError('CLIENT_LACKS_CAPABILITY', refusal.message, { cause: refusal });
}

type Params<Method extends McpQuestion['method']> = NonNullable<Extract<McpQuestion, { method: Method }>['params']>;
/** Accepts the values that a schema of the specification accepts, if they are not too many. */
function fits<T extends object>(schema: Checked<T>): (answer: unknown) => T | undefined {
  return (answer) => {
    if (isLarger(answer, MAX_CHECKED_VALUES)) return undefined;
    // The schemas of the specification are synchronous.
    const outcome = firstProblem(schema, answer) as Outcome<T>;
    return outcome.issues ? undefined : outcome.value;
  };
}

interface Checked<T> {
  readonly '~standard': { validate(value: unknown): Outcome<T> };
}
type Outcome<T> = { readonly value: T; readonly issues?: undefined } | { readonly issues: readonly unknown[] };

/**
 * At most so many schemas are kept compiled. Most handlers ask with a handful; one that builds its schema per call has
 * many.
 */
const MAX_COMPILED = 500;

/**
 * Compiles each JSON Schema once, by its text, because handlers create the objects again in each run.
 *
 * Ajv never releases compiled schemas, so when there are too many, the compiler is replaced.
 */
export class RequestedSchemas {
  #compiler = new BoundedJsonSchemas();
  readonly #compiled = new Map<string, JsonSchemaValidator<unknown>>();

  constructor(private readonly maxCompiled = MAX_COMPILED) {}

  /** Returns a compiled schema. @throws Error when it is no schema */
  getValidator(schema: JsonSchemaType): JsonSchemaValidator<unknown> {
    const text = JSON.stringify(schema);
    let validator = this.#compiled.get(text);
    if (!validator) {
      if (this.#compiled.size >= this.maxCompiled) {
        this.#compiled.clear();
        this.#compiler = new BoundedJsonSchemas();
      }
      // The schema is copied, as handlers may change theirs later, and without its $id, by which Ajv would use another
      // schema.
      const { $id: _, ...copy } = JSON.parse(text) as JsonSchemaType;
      validator = this.#compiler.getValidator(copy);
      this.#compiled.set(text, validator);
    }
    return validator;
  }
}
