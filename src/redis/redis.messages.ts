/** What users read of this room. */
export const redisMessages = {
  missing: () =>
    'redisBackend() was given a URL, and the package "ioredis" is not installed. Install it (npm install ioredis), or pass an instance of your own.',
  target: (given: string) =>
    `redisBackend() takes a URL such as "redis://localhost:6379", or an instance of Redis or Cluster of ioredis; got ${given}.`,
  away: (operation: string, cause: string) =>
    `Redis did not carry out "${operation}": ${cause}. Try again; if it goes on, check that Redis can be reached and has memory.`,
  closed: (operation: string) =>
    `The connection to Redis is closed, so "${operation}" was not carried out. A backend serves one app: call redisBackend() anew for another one.`,
  late: (limitMs: number) => `no answer within ${limitMs} ms`,
  outage: (cause: string) =>
    `Redis is away: ${cause}. Requests on sessions are answered with 503, open streams stay, and everything goes on when it is back.`,
  recovered: () => 'Redis is back.',
  mourned: (node: string) =>
    `This node ("${node}") is no longer known to the others: they took it for dead and ended its open calls, or Redis has lost its data. It goes on. Raise "deadAfterMs" if the process or its machine pauses for long.`,
  strange: (channel: string) => `A message on the channel "${channel}" is no message of this library and was ignored.`,
  deadAfter: (heartbeatMs: number, deadAfterMs: number) =>
    `The option "deadAfterMs" (${deadAfterMs}) must be at least three times "heartbeatMs" (${heartbeatMs}), or one lost beat ends the calls of a living node.`,
};
