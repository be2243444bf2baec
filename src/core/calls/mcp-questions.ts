import type {
  CreateMessageRequestParams,
  CreateMessageResultWithTools,
  ElicitInputParams,
  ElicitRequestURLParams,
  ElicitResult,
  ListRootsRequest,
  ListRootsResult,
} from '@modelcontextprotocol/server';

/** A question to the user: a form to fill in, or a URL to visit. @publicApi */
export type McpElicitation =
  | (Omit<ElicitInputParams, 'mode'> & { mode?: 'form' })
  /** `elicitationId` exists up to revision 2025-11-25; for those revisions one is generated if there is none. */
  | (Omit<ElicitRequestURLParams, 'elicitationId'> & { elicitationId?: string });

/**
 * A question for the client: to its user, to its model, or for its roots. The results of `inputRequired.elicit()`,
 * `inputRequired.createMessage()` and `inputRequired.listRoots()` of the SDK are questions too.
 *
 * @publicApi
 */
export type McpQuestion =
  | { method: 'elicitation/create'; params: McpElicitation }
  | { method: 'sampling/createMessage'; params: CreateMessageRequestParams }
  | { method: 'roots/list'; params?: ListRootsRequest['params'] };

/**
 * The user's answer to a form: `content` is there if the user has accepted, with the type that the schema describes. The
 * content is checked, not converted.
 *
 * @publicApi
 */
export type McpElicitAnswer<Content = NonNullable<ElicitResult['content']>> =
  | { action: 'accept'; content: Content; _meta?: ElicitResult['_meta'] }
  | { action: 'decline' | 'cancel'; content?: undefined; _meta?: ElicitResult['_meta'] };

/** A form, whose schema decides the type of its answer. @publicApi */
export type McpForm<Schema = ElicitInputParams['requestedSchema']> = Omit<
  ElicitInputParams,
  'mode' | 'requestedSchema'
> & {
  mode?: 'form';
  /** A Standard Schema, or a JSON Schema of flat properties. */
  requestedSchema: Schema;
};

/** The content of a form has the type that its schema describes. @internal */
export type McpFormContent<Schema> = Schema extends { readonly '~standard': { readonly types?: infer Types } }
  ? NonNullable<Types> extends { readonly input: infer Content }
    ? Content
    : NonNullable<ElicitResult['content']>
  : Schema extends { readonly properties: infer Properties }
    ? ContentOf<Properties, Schema extends { readonly required: readonly (infer Name)[] } ? Name : never>
    : NonNullable<ElicitResult['content']>;

type ContentOf<Properties, Required> = {
  -readonly [Name in keyof Properties as Name extends Required ? Name : never]: FieldOf<Properties[Name]>;
} & {
  -readonly [Name in keyof Properties as Name extends Required ? never : Name]?: FieldOf<Properties[Name]>;
} extends infer Both
  ? { [Name in keyof Both]: Both[Name] }
  : never;

type FieldOf<Schema> = Schema extends { readonly enum: readonly (infer Value)[] }
  ? Value
  : Schema extends { readonly oneOf: readonly { readonly const: infer Value }[] }
    ? Value
    : Schema extends { readonly type: 'array' }
      ? string[]
      : Schema extends { readonly type: 'boolean' }
        ? boolean
        : Schema extends { readonly type: 'number' | 'integer' }
          ? number
          : string;

/** The answer to a question of the given type. @publicApi */
export type McpAnswer<Question> = Question extends { method: 'elicitation/create' }
  ? Question extends { params: { requestedSchema: infer Schema } }
    ? McpElicitAnswer<McpFormContent<Schema>>
    : ElicitResult
  : Question extends { method: 'sampling/createMessage' }
    ? CreateMessageResultWithTools
    : ListRootsResult;

/** The answers to several questions, each under the key of its question. @internal */
export type McpAnswers<Questions> = { readonly [Key in keyof Questions]: McpAnswer<Questions[Key]> };
