/** What users read of this room. */
export const streamMessages = {
  sessionGone: () => 'The session has ended: its event log takes and gives nothing any more. Start a new session.',
  streamNotFound: (stream: string) =>
    `Stream "${stream}" does not exist in this session: it was never begun, or it finished and its time is over. Repeat the request.`,
  streamEnded: (stream: string) => `Stream "${stream}" has ended: nothing can be added to it.`,
  eventsEvicted: (stream: string, after: number, oldest: number) =>
    `The reader of stream "${stream}" was too slow: of the events after ${after} the oldest one kept is ${oldest}. Read faster, or raise "eventLog.maxEvents" or "eventLog.maxBytes".`,
  eventLogFull: (stream: string, limit: string) =>
    `The event log has no room on stream "${stream}": more was handed on within a minute than "${limit}" allows. Send less at a time, or raise the limit.`,
  streamOverflow: (stream: string, maxQueuedBytes: number) =>
    `More than ${maxQueuedBytes} bytes wait for stream "${stream}" while the event store fails: the stream is given up. Check the event store.`,
};
