import { type InjectionToken, Logger, type Provider } from '@nestjs/common';
import { Clock } from './common/clock.js';
import { ENDPOINT_NAME, type EndpointName } from './mcp-streamable.endpoint-name.js';
import type { McpStreamableOptions } from './mcp-streamable.options.js';
import { secretsFor } from './questions/request-state.options.js';
import { RequestStates } from './questions/request-state.js';
import { PROTOCOL_OPTIONS, type ResolvedProtocolOptions } from './endpoint/protocol.options.js';
import type { RunParts } from './questions/handler-run.js';
import { RequestedSchemas } from './questions/question.js';
import { McpSessionStore } from './session/session-store.js';

/** The injection token of what the runs of handlers share: {@link RunParts}. */
export const RUN_PARTS = Symbol('nestjs-mcp-streamable:run-parts');

const logger = new Logger('McpStreamable');

/** How an endpoint's handlers ask their clients. */
export function questionProviders(options: InjectionToken): Provider[] {
  return [
    {
      provide: RequestStates,
      useFactory: (
        { eras, requestStateKeys, requestStateTtlMs: ttlMs, maxRequestStateBytes: maxBytes }: ResolvedProtocolOptions,
        { scope }: McpSessionStore,
        { server }: McpStreamableOptions,
        { name, path }: EndpointName,
        clock: Clock,
      ) => {
        // Sessions stay where they are; and servers of the app keep the state of their handlers as they like.
        const shared = scope === 'shared' && eras !== 'legacy' && server === undefined;
        const secrets = secretsFor(requestStateKeys, shared);
        return new RequestStates({ secrets, ttlMs, maxBytes, endpoint: { name, path } }, clock);
      },
      inject: [PROTOCOL_OPTIONS, McpSessionStore, options, ENDPOINT_NAME, Clock],
    },
    {
      provide: RUN_PARTS,
      useFactory: (states: RequestStates, clock: Clock): RunParts => ({
        states,
        clock,
        schemas: new RequestedSchemas(),
        report: (text) => logger.error(text),
      }),
      inject: [RequestStates, Clock],
    },
  ];
}
