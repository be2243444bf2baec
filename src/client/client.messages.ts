import { shown } from '../wire/wire.messages.js';

/** What users read of the transport. Session ids and credentials are never part of it. */
export const clientMessages = {
  status: (method: string, place: string, status: number, text: string | undefined) =>
    `${method} ${place} was answered with HTTP ${status}${text ? `: ${shown(text)}` : ''}. ${adviceFor(status)}`,
  redirected: (place: string, to: string | null) =>
    `${place} redirects to ${shown(to ?? undefined)}, which is not followed: credentials and session ids stay with the origin they were given for. Use the final URL.`,
  unauthorized: (place: string, status: number, scheme: string | undefined) =>
    `${place} refused the credentials (HTTP ${status}${scheme ? `, asking for ${scheme}` : ''}). Return valid ones from the option "headers", or refresh them in "onUnauthorized".`,
  sessionLost: (mayHaveRun: boolean) =>
    `The server does not know this session any more${mayHaveRun ? '; the request may have been carried out' : ''}. Connect again, or set the option "recover".`,
  recoveryFailed: (reason: string) =>
    `The session was lost, and a new one could not be started (${reason}). Connect again.`,
  otherRevision: (before: string | undefined, now: string | undefined) =>
    `the server now speaks revision ${shown(now)}, this client negotiated ${shown(before)}`,
  sessionChanged: () =>
    'The server answered with another session id than the one of this session. The answer was not used: report this to whoever runs the server.',
  badSessionId: () =>
    'The server gave a session id with characters other than visible ASCII, which cannot be sent back. The session was not started.',
  streamLost: (reason: string, mayHaveRun: boolean) =>
    `The response ended before the answer (${reason})${mayHaveRun ? '; the request may have been carried out' : ''}. Repeat the request if that does no harm.`,
  noCursor: () => 'and it had no event id to come back with',
  finished: () => 'and the server has nothing more on that stream',
  cursorRefused: (status: number) => `and the server refused to resume it, HTTP ${status}`,
  outOfAttempts: (attempts: number) => `and could not be resumed in ${attempts} attempts`,
  noAnswer: (place: string, reason: string) =>
    `${place} gave no answer (${reason}). Is the server running, and is this its address?`,
  unexpectedContent: (method: string, place: string, type: string | null) =>
    `${method} ${place} was answered with ${type === null ? 'no content type' : shown(type)}, not with "application/json" or "text/event-stream". Is this the URL of an MCP server?`,
  notJson: (place: string) => `${place} answered with a body that is not a JSON-RPC message. Is this an MCP server?`,
  unanswered: (method: string, status: number) =>
    `The server took the request ${shown(method)} with HTTP ${status} and no answer. A request must be answered.`,
  tooLarge: (bytes: number) =>
    `The server sent a message of more than ${bytes} bytes ("maxMessageBytes"). It was not read; raise the option if it is wanted.`,
  silent: (ms: number) => `nothing came for ${ms} ms`,
  notOpened: (ms: number) => `The server did not begin to answer within ${ms} ms.`,
  closed: () => 'The transport is closed: nothing can be sent or received any more. Make a new one.',
  notStarted: () => 'The transport is not started. Connect a client to it, or call start().',
  startedTwice: () => 'The transport was started already. A client calls start() itself when it connects.',
  cancelled: () => 'The request was cancelled.',
  initializeFailed: () => 'This message waited for the session, which could not be started.',
};

function adviceFor(status: number): string {
  if (status === 429 || status === 503) return 'The server is busy: try again later.';
  if (status >= 500) return 'The server, or a proxy before it, failed: see its log.';
  return 'Check the URL and what was sent.';
}
