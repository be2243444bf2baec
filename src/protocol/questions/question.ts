import { randomUUID } from 'node:crypto';
import {
  type ClientCapabilities,
  type InputRequest,
  inputRequired,
  type JsonSchemaType,
  type JsonSchemaValidator,
  specTypeSchemas,
} from '@modelcontextprotocol/server';
import type { McpElicitation, McpQuestion } from '../../context/mcp-questions.js';
import { questionMessages } from './questions.messages.js';
import type { RequestedSchemas } from './requested-schemas.js';

/**
 * One question of a handler, checked, and in the form of the protocol.
 *
 * Its answer comes from outside: {@link accept} says whether it is one.
 */
export abstract class Question {
  /** @throws Error when it cannot be asked */
  static of(key: string, question: McpQuestion, schemas: RequestedSchemas): Question {
    if (key === '' || key === '__proto__') throw new Error(questionMessages.badKey(key));
    const { method, params } = (question ?? {}) as Partial<McpQuestion>;
    if (method === 'roots/list') return new RootsQuestion(key, params);
    if (typeof params === 'object' && params !== null) {
      if (method === 'elicitation/create') return elicitation(key, params, schemas);
      if (method === 'sampling/createMessage') return new SamplingQuestion(key, params);
    }
    throw new Error(questionMessages.badQuestion(key, question));
  }

  protected constructor(
    readonly key: string,
    /** As revision 2026-07-28 has it. */
    readonly embedded: InputRequest,
    /** What the client must have declared. */
    readonly required: ClientCapabilities,
  ) {}

  /** As the revisions before have it. */
  get request(): InputRequest {
    return this.embedded;
  }

  /** @returns the answer; `undefined` when what came does not answer this question */
  abstract accept(answer: unknown): object | undefined;

  isSameAs(other: Question): boolean {
    return JSON.stringify(this.embedded) === JSON.stringify(other.embedded);
  }
}

class RootsQuestion extends Question {
  constructor(key: string, params: Params<'roots/list'> | undefined) {
    super(key, { method: 'roots/list', ...(params && { params }) }, { roots: {} });
  }

  accept(answer: unknown): object | undefined {
    return valid(specTypeSchemas.ListRootsResult, answer);
  }
}

class SamplingQuestion extends Question {
  readonly #withTools: boolean;

  constructor(key: string, params: Params<'sampling/createMessage'>) {
    const withTools = params.tools !== undefined || params.toolChoice !== undefined;
    super(key, { method: 'sampling/createMessage', params }, { sampling: withTools ? { tools: {} } : {} });
    this.#withTools = withTools;
  }

  accept(answer: unknown): object | undefined {
    const { CreateMessageResult, CreateMessageResultWithTools } = specTypeSchemas;
    return valid(this.#withTools ? CreateMessageResultWithTools : CreateMessageResult, answer);
  }
}

class FormQuestion extends Question {
  constructor(
    key: string,
    embedded: InputRequest,
    private readonly validate: JsonSchemaValidator<unknown>,
  ) {
    super(key, embedded, { elicitation: { form: {} } });
  }

  accept(answer: unknown): object | undefined {
    const result = valid(specTypeSchemas.ElicitResult, answer);
    if (result?.action !== 'accept') return result;
    return this.validate(result.content ?? {}).valid ? result : undefined;
  }
}

class UrlQuestion extends Question {
  readonly #id: string | undefined;

  constructor(key: string, { elicitationId, ...params }: UrlParams) {
    super(key, inputRequired.elicitUrl(params), { elicitation: { url: {} } });
    this.#id = elicitationId;
  }

  override get request(): InputRequest {
    const { params } = this.embedded;
    return { method: 'elicitation/create', params: { ...params, elicitationId: this.#id ?? randomUUID() } as never };
  }

  accept(answer: unknown): object | undefined {
    return valid(specTypeSchemas.ElicitResult, answer);
  }
}

function elicitation(key: string, params: McpElicitation, schemas: RequestedSchemas): Question {
  if (params.mode === 'url') return new UrlQuestion(key, params);
  const embedded = inputRequired.elicit(params);
  const { requestedSchema } = embedded.params as { requestedSchema: JsonSchemaType };
  try {
    return new FormQuestion(key, embedded, schemas.getValidator(requestedSchema));
  } catch (error) {
    throw new Error(questionMessages.badSchema(key, String(error)), { cause: error });
  }
}

type Params<Method extends McpQuestion['method']> = NonNullable<Extract<McpQuestion, { method: Method }>['params']>;
type UrlParams = Extract<McpElicitation, { mode: 'url' }>;

function valid<T>(schema: Checked<T>, value: unknown): T | undefined {
  const outcome = schema['~standard'].validate(value);
  return outcome.issues ? undefined : outcome.value;
}

interface Checked<T> {
  readonly '~standard': { validate(value: unknown): Outcome<T> };
}
type Outcome<T> = { readonly value: T; readonly issues?: undefined } | { readonly issues: readonly unknown[] };
