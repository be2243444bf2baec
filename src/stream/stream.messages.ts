import type { RequestId } from '../wire/json-rpc.js';

/** What users read of this room. */
export const streamMessages = {
  sessionGone: () => 'The session has ended: its event log takes and gives nothing any more. Start a new session.',
  streamNotFound: (stream: string) =>
    `Stream "${stream}" does not exist in this session: it was never begun, or it finished and its time is over. Repeat the request.`,
  streamEnded: (stream: string) => `Stream "${stream}" has ended: nothing can be added to it.`,
  duplicateRequest: (request: RequestId) =>
    `A request with the id ${JSON.stringify(request)} is in flight in this session, on another node. Give each request an id of its own.`,
  eventsEvicted: (stream: string, after: number, oldest: number) =>
    `Stream "${stream}" no longer holds the events after ${after}: the oldest one kept is ${oldest}. Repeat the request, or raise "eventLog.maxEvents" or "eventLog.maxBytes".`,
  eventLogFull: (stream: string, limit: string) =>
    `The event log has no room for stream "${stream}": only answers that nobody has read are left, and "${limit}" is reached. Read the answers, or raise the limit.`,
  streamOverflow: (stream: string, maxQueuedBytes: number) =>
    `More than ${maxQueuedBytes} bytes wait for stream "${stream}" while the event store fails: the stream is given up. Check the event store.`,
};
