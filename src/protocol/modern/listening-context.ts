import { quiet } from '../../base/quiet.js';
import type { McpCall } from '../../context/mcp-call.js';
import { McpContext, type McpClientPort } from '../../context/mcp-context.js';
import { ServerRequestError } from '../../context/server-request.error.js';
import { subscriptionMessages } from './subscriptions.messages.js';

/**
 * The context of guards that say what a caller may listen to: before there is anything to say to its client, and with nothing
 * that would be answered if it were asked.
 */
export function listeningContext(call: McpCall): McpContext {
  return new McpContext(call, new SilentPort(call), undefined);
}

class SilentPort implements McpClientPort {
  readonly inputResponses = undefined;
  readonly requestState = undefined;

  constructor(private readonly call: McpCall) {}

  get clientCapabilities(): Readonly<Record<string, unknown>> {
    return this.call.client.capabilities;
  }

  notify(): Promise<void> {
    return Promise.resolve();
  }

  log(): Promise<void> {
    return Promise.resolve();
  }

  ask(): Promise<never> {
    return quiet(Promise.reject(new ServerRequestError('NO_STREAM', subscriptionMessages.nothingToAsk())));
  }

  once(_key: string, fn: () => unknown): Promise<unknown> {
    return quiet(Promise.resolve().then(fn));
  }
}
