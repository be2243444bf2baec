import {
  type InjectionToken,
  Logger,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
  type Provider,
} from '@nestjs/common';
import { ApplicationConfig } from '@nestjs/core';
import { DeclaredHandlers } from './handlers/discovery/declared-handlers.js';
import { EndpointMark } from './handlers/discovery/app-scan.js';
import { HandlerTable } from './handlers/registry/handler-table.js';
import { HANDLER_OPTIONS, resolveHandlerOptions, type ResolvedHandlerOptions } from './handlers/handlers.options.js';
import { HandlerInvokers } from './handlers/invocation/handler-invokers.js';
import { globalGuardNames } from './handlers/invocation/enhancers.js';
import { McpRegistry } from './handlers/registry/mcp-registry.js';
import { ENDPOINT_NAME, type EndpointName } from './mcp-streamable.endpoint-name.js';
import { getMcpRegistryToken } from './mcp-registry.token.js';
import { getMcpSessionServiceToken } from './mcp-session-service.token.js';
import type { McpStreamableOptions } from './mcp-streamable.options.js';
import { RUN_PARTS } from './mcp-streamable.question-providers.js';
import { HandlerCalls } from './methods/handler-calls.js';
import { ListChangedRelay } from './methods/lists.js';
import type { RunParts } from './questions/handler-run.js';
import type { McpSessionService } from './session/mcp-session.service.js';
import { StoredStates } from './state/stored-states.js';

const logger = new Logger('McpStreamable');

/** What an endpoint knows of handlers: one table for all of its sessions, and what fills and announces it. */
export function handlerProviders(options: InjectionToken, name: string | undefined): Provider[] {
  return [
    { provide: HANDLER_OPTIONS, useFactory: resolveHandlerOptions, inject: [options] },
    { provide: EndpointMark, useValue: new EndpointMark(name) },
    {
      provide: HandlerTable,
      useFactory: ({ server }: McpStreamableOptions) => new HandlerTable(server !== undefined),
      inject: [options],
    },
    HandlerInvokers,
    {
      provide: HandlerCalls,
      useFactory: (parts: RunParts, states: StoredStates) => new HandlerCalls(parts, states),
      inject: [RUN_PARTS, StoredStates],
    },
    {
      provide: getMcpRegistryToken(name),
      useFactory: (table: HandlerTable, failures: ResolvedHandlerOptions) => new McpRegistry(table, failures),
      inject: [HandlerTable, HANDLER_OPTIONS],
    },
    DeclaredHandlers,
    {
      provide: EndpointHandlers,
      useFactory: (
        declared: DeclaredHandlers,
        table: HandlerTable,
        sessions: McpSessionService,
        ...[endpoint, given, config]: [EndpointName, McpStreamableOptions, ApplicationConfig]
      ) => new EndpointHandlers(declared, table, sessions, () => adviseOnHandlers(endpoint, given, config, table)),
      inject: [
        ...[DeclaredHandlers, HandlerTable, getMcpSessionServiceToken(name)],
        ...[ENDPOINT_NAME, options, ApplicationConfig],
      ],
    },
  ];
}

/** Says which way the options are that an app has not decided, and that it may want to decide. */
function adviseOnHandlers(
  { path }: EndpointName,
  { server, errorDetails, listGuards }: McpStreamableOptions,
  config: ApplicationConfig,
  table: HandlerTable,
): void {
  if (server !== undefined) return;
  if (errorDetails === undefined) {
    logger.log(
      resolveHandlerOptions().errorDetails
        ? `Clients of the endpoint "${path}" read the messages of errors that its handlers throw, as NODE_ENV is not "production". The option "errorDetails" decides.`
        : `Clients of the endpoint "${path}" read a generic text of errors that its handlers throw, as NODE_ENV is "production". The option "errorDetails" decides; throw an HttpException for what they should read.`,
    );
  }
  const guards = listGuards === undefined && !table.empty ? globalGuardNames(config) : [];
  if (guards.length === 0) return;
  logger.log(
    `The endpoint "${path}" lists its handlers without asking the global guards ${guards.join(', ')}: a caller may see what they will not let it call. Name those that decide by role in the option "listGuards", and none that counts calls or looks up a token; "listGuards: []" says that this is meant.`,
  );
}

/** The life of an endpoint's handlers: found when all providers are there, announced until the app shuts down. */
class EndpointHandlers implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  #relay: ListChangedRelay | undefined;

  constructor(
    private readonly declared: DeclaredHandlers,
    private readonly table: HandlerTable,
    private readonly sessions: McpSessionService,
    private readonly advise: () => void,
  ) {}

  /** @throws HandlerDefinitionError, DuplicateHandlerError */
  onModuleInit(): void {
    this.declared.load();
    // Nobody is connected yet, so what has been found is no change.
    this.#relay = new ListChangedRelay(this.table, this.sessions, (error) => logger.error(String(error)));
  }

  /** Global guards may be given until now. */
  onApplicationBootstrap(): void {
    this.advise();
  }

  onModuleDestroy(): void {
    this.#relay?.close();
    this.table.close();
  }
}
