import { sessionMessages } from './session.messages.js';

/** The option `server` returned something that cannot serve a session. @publicApi */
export class ServerFactoryError extends Error {
  override readonly name = 'ServerFactoryError';
  readonly code = 'SERVER_FACTORY';
}

/** @publicApi */
export class UnknownSessionError extends Error {
  override readonly name = 'UnknownSessionError';
  readonly code = 'UNKNOWN_SESSION';
  constructor(readonly sessionId: string) {
    super(sessionMessages.unknownSession(sessionId));
  }
}
