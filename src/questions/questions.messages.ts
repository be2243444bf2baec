import { shown } from '../wire/wire.messages.js';

/** What users read of questions to the client. */
export const questionMessages = {
  badKey: (key: string) =>
    `${shown(key)} cannot be the key of a question: use a text that is not empty, and not "__proto__".`,
  badOnceKey: (key: unknown) => `${shown(key)} cannot be the key of ctx.once(): use a text.`,
  badQuestion: (key: string, question: unknown) =>
    `The question "${key}" is ${shown(question)}. A question is { method, params } with the method "elicitation/create", "sampling/createMessage" or "roots/list".`,
  badSchema: (key: string, reason: string) =>
    `The "requestedSchema" of the question "${key}" cannot be used: ${reason}`,
  twoQuestions: (key: string) =>
    `The handler asked two different questions with the key "${key}". Give each question a key of its own, the same each time the handler runs.`,
  sameAnswer: (key: string, times: number) =>
    `The handler asked the question "${key}" ${times} times in one run. A question has one answer: to ask again, use another key each time, such as "${key}-2".`,
  asksNothing: (method: string) =>
    `The handler of "${method}" returned inputRequired() with neither questions nor a state. Give it at least one of the two.`,
  unreadable: (method: string, error: string) =>
    `What the handler of "${method}" returned with inputRequired() cannot be read: ${error}`,
  cannotAskReturned: (method: string) =>
    `The questions of "${method}" cannot be asked. The log of the server says why.`,
  tooManyRounds: (method: string, max: number) =>
    `"${method}" asked for input ${max} times in a row without an end. It was ended here.`,
  cannotAskClient: (key: string, method: string, capability: string) =>
    `The input "${key}" (${method}) is needed, but this client did not declare the capability "${capability}".`,
  roundFailed: (method: string, reason: string) => `The input that "${method}" needs could not be had: ${reason}`,
  anotherFailed: () => 'Another question of the same round has failed.',
  invalidAnswer: (key: string, method: string) =>
    `The client's answer to the question "${key}" (${method}) is not what the question asks for.`,
  toolResultsAlone: () => 'The last message has a "tool_result", so it must contain nothing else.',
  toolResultsWithoutUse: () =>
    'The last message has a "tool_result", but the message before it has no "tool_use" that it answers.',
  unmatchedToolResults: () =>
    'The "tool_result" blocks of the last message must answer exactly the "tool_use" blocks of the message before it.',
  notJson: (key: string, where: string) =>
    `The result of ctx.once("${key}") cannot be kept: ${where} is not JSON. Return texts, numbers, booleans, null, arrays and plain objects; a date, for example, as its toISOString().`,
  callOver: (key: string) =>
    `The question "${key}" cannot be asked: the handler has returned. Ask before it does, and await the answer.`,
  cannotAsk: (key: string, method: string) =>
    `The question "${key}" cannot be asked during "${method}": in revision 2026-07-28 only tools, prompts and resources can ask, while they are called, got or read.`,
  missingCapability: (key: string, method: string) =>
    `The question "${key}" (${method}) cannot be asked: the request does not declare the client capability that it needs.`,
  suspended: (keys: readonly string[]) =>
    `The client must first answer ${keys.map((key) => `"${key}"`).join(', ')}; then the handler runs again.`,
  stateTooLarge: (method: string, target: string, bytes: number, max: number) =>
    `"${method}" of ${shown(target)} failed: what it has to remember until the client has answered takes ${bytes} bytes, and ${max} is the most ("maxRequestStateBytes"). Keep less with ctx.once(), such as a key under which the rest is stored.`,
  noKeys: () => 'The option "requestStateKeys" must be an array of at least one secret.',
  badRequestStateKey: (index: number, min: number) =>
    `"requestStateKeys[${index}]" must be a secret of at least ${min} bytes, as a text or a Uint8Array. "openssl rand -base64 32" makes one.`,
  keysNeeded: () =>
    'The sessions of this endpoint are shared by several nodes, so the option "requestStateKeys" is needed: a client may bring the answers to the questions of one node to another, which must be able to open what the first one has sealed. Give all nodes the same array of secrets, each of at least 32 bytes. An endpoint with eras: "legacy" needs none.',
  nestedTooDeeply: () =>
    'The parameters are nested too deeply for the server to ask something and go on. Send flatter ones.',
  cannotContinue: () => 'The server could not keep what it needs to go on. Its log says why.',
};
