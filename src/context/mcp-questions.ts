import type {
  CreateMessageRequestParams,
  CreateMessageResult,
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
 * A question for the client: to its user, to its model, or for its roots. What `inputRequired.elicit()`,
 * `inputRequired.createMessage()` and `inputRequired.listRoots()` of the SDK make is one too.
 *
 * @publicApi
 */
export type McpQuestion =
  | { method: 'elicitation/create'; params: McpElicitation }
  | { method: 'sampling/createMessage'; params: CreateMessageRequestParams }
  | { method: 'roots/list'; params?: ListRootsRequest['params'] };

/** The answer to a question of the given type. @publicApi */
export type McpAnswer<Question> = Question extends { method: 'elicitation/create' }
  ? ElicitResult
  : Question extends { method: 'sampling/createMessage'; params: infer Params }
    ? SamplingAnswer<Params>
    : ListRootsResult;

/** A model that was given tools may answer with tool calls. */
type SamplingAnswer<Params> = Params extends { tools: object }
  ? CreateMessageResultWithTools
  : 'tools' extends keyof Params
    ? CreateMessageResult | CreateMessageResultWithTools
    : CreateMessageResult;

/** The answers to several questions, each under the key of its question. @publicApi */
export type McpAnswers<Questions> = { readonly [Key in keyof Questions]: McpAnswer<Questions[Key]> };
