import type { RequestId } from '../wire/json-rpc.js';

/** What users read of this room. */
export const sessionMessages = {
  ended: (reason: string) =>
    `The session has ended (${reason}), and this request with it. Start a new session and repeat it.`,
  requestTimedOut: (ms: number) =>
    `The request was not answered within ${ms} ms ("requestTimeoutMs") and was cancelled. Ask for less, or raise the option.`,
  handlerFailed: () => 'The server could not process this message. Its log says why.',
  unwritableAnswer: () => 'The answer of the handler cannot be written as JSON. The log of the server says why.',
  storeAway: () => 'The storage of this server is away at the moment. Try again soon.',
  unsentAsStoreAway: (method: string) =>
    `"${method}" could not be sent: the storage of this server is away at the moment. The request may be repeated: try again soon.`,
  unrecorded: () => 'The storage of this server is away, so the change could not be kept. Try again later.',
  duplicateId: (id: RequestId) =>
    `A request with the id ${JSON.stringify(id)} is in flight in this session. Give each request an id of its own.`,
  noStream: (method: string) =>
    `"${method}" cannot be sent: no response of this session is open that could carry it. Send it while a request of the client is being handled, or after the client has opened its GET stream.`,
  jsonOnly: (method: string) =>
    `"${method}" cannot be sent: "responseMode" is "json", and a JSON answer carries nothing else. Use "auto" or "sse".`,
  clientGone: (method: string) =>
    `"${method}" cannot be sent: the client closed the connection before it learnt how to come back to it.`,
  callOver: (method: string) =>
    `"${method}" cannot be sent: the request on whose behalf it is sent is over. Send it before the handler returns.`,
  askedInVain: (method: string) =>
    `The answer to "${method}" is not awaited any more: the request on whose behalf it was sent is over.`,
  lacksCapability: (method: string, capability: string) =>
    `"${method}" cannot be sent: the client did not declare the capability "${capability}".`,
  serverRequestTimedOut: (method: string, ms: number, isOption: boolean) =>
    `The client did not answer "${method}" within ${ms} ms${isOption ? ' ("serverRequestTimeoutMs")' : ''}.`,
  answerMayBeLost: (method: string, ms: number, isOption: boolean) =>
    `The client did not answer "${method}" within ${ms} ms${isOption ? ' ("serverRequestTimeoutMs")' : ''}. The storage of this server was away meanwhile, so that an answer may have been refused. The request may be repeated.`,
  nodeDied: () =>
    'The server that handled this request has failed, and the request with it. Whether it had an effect is not known. Repeat it if that does no harm.',
  nodeStopped: () =>
    'This server is shutting down and ended this request before it was answered. Whether it had an effect is not known. Repeat it if that does no harm.',
  nodeStoppedWithSession: () =>
    'This server is shutting down and ended this request before it was answered, and its session with it. Whether it had an effect is not known. Start a new session, and repeat the request if that does no harm.',
  tooManyCalls: (max: number) =>
    `This session has ${max} requests in flight, the most it may have. Wait for answers before you send more.`,
  tooManySubscriptions: (max: number) =>
    `This session has ${max} subscriptions, the most it may have. Unsubscribe from something first.`,
  longUri: (length: number, max: number) => `The URI has ${length} characters; ${max} is the most.`,
  invalidAnswer: (method: string, path: string, problem: string) =>
    `The client answered "${method}" with something else than the specification has: "${path}": ${problem}.`,
  sessionOver: () => 'The session has ended: nothing can be sent to its client any more.',
  unknownSession: (id: string) => `There is no session "${id}". It may have ended.`,
  malformedCursor: (id: string) =>
    `Last-Event-ID "${id.slice(0, 100)}" is not an event id of this server ("<stream>_<index>"). Send the id of the last event you received, or none.`,
  unknownCursor: (id: string) =>
    `Last-Event-ID "${id}" names a stream that this session does not have: it was never begun, or it finished and its time is over. Repeat the request, or send no Last-Event-ID.`,
  initializedAlready: () =>
    'This session is initialized already. Send "initialize" without Mcp-Session-Id to start another one.',
  notInitialized: (method: string) => `"${method}" came before "initialize". Initialize the session first.`,
  noBatches: (version: string) =>
    `Revision "${version}" of the protocol has no batches. Send the messages one by one, or negotiate "2025-03-26".`,
  batchTooLarge: (size: number, max: number) => `The batch has ${size} messages; ${max} is the most. Send it in parts.`,
  initializeInBatch: () => '"initialize" cannot be part of a batch. Send it alone.',
};
