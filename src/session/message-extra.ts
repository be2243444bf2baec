import type { AuthInfo, MessageExtraInfo } from '@modelcontextprotocol/server';
import type { SessionCall } from './session-call.js';
import type { SessionStreams } from './session-streams.js';

/**
 * What the SDK gets with a message.
 *
 * @param streams those of the session, when its clients come back to a stream that was closed
 */
export function messageExtra(call: SessionCall, streams: SessionStreams | undefined): MessageExtraInfo {
  const extra: MessageExtraInfo = {};
  const auth = (call.request as { auth?: Partial<AuthInfo> } | undefined)?.auth;
  if (typeof auth?.token === 'string') extra.authInfo = auth as AuthInfo;
  if (call.exchange && streams) {
    extra.closeSSEStream = () => void call.closeStream();
    extra.closeStandaloneSSEStream = () => streams.disconnectStandalone();
  }
  return extra;
}
