/** The option `server` returned something that cannot serve a session. @publicApi */
export class McpServerFactoryError extends Error {
  override readonly name = 'McpServerFactoryError';
  readonly code = 'SERVER_FACTORY';
}

/** The session does not exist, or has ended. @publicApi */
export class McpUnknownSessionError extends Error {
  override readonly name = 'McpUnknownSessionError';
  readonly code = 'UNKNOWN_SESSION';
  constructor(readonly sessionId: string) {
    super(`Session "${sessionId}" not found. It may have ended.`);
  }
}

/** Answers a request of an ended session. */
export const SESSION_OVER = 'The session has ended: no message can be sent to its client.';

/** Answers the open requests of a session that ends. */
export function endedText(reason: string): string {
  return `The session ended (${reason}) before this request was answered. Start a new session and repeat the request.`;
}
