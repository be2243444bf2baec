import { shown } from '../wire/wire.messages.js';

/** What users read of this room. */
export const callMessages = {
  notAHandler: () =>
    'McpExecutionContext.create() was given the context of something else than an MCP handler. Ask McpExecutionContext.isMcp(context) first where a guard, interceptor or decorator serves both.',
  noStateHere: () => 'There is no state while a guard decides what a client may subscribe to. Use it in handlers.',
  unknownState: (handle: string) =>
    `There is no state with the handle ${shown(handle)}: it has expired, was deleted, or never was. Call again without a handle to begin a new one, and pass on the handle that you are given then.`,
};
