import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import { logger } from '../calls/operator-log.js';
import { MCP_OPTIONS } from '../common/options.js';
import { DeclaredHandlers } from '../handlers/discovery/declared-handlers.js';
import { type ResolvedHandlerOptions, detailsForLocalCallers } from '../handlers/handlers.options.js';
import { McpHandlerDefinitionError } from '../handlers/handlers.errors.js';
import { type HandlerEntry, HandlerTable, needsOf } from '../handlers/registry/handler-table.js';
import { EndpointCachePolicy } from './cache-hints.js';
import { EndpointExtensions } from './extensions.js';
import { EndpointHost } from './endpoint-host.js';
import { PluginHost } from '../plugins/plugin-host.js';
import { ListChangedRelay } from './lists.js';

/**
 * Loads an endpoint's handlers when all providers exist, and announces their changes until the app shuts down.
 */
@Injectable()
export class EndpointHandlers implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  constructor(
    @Inject(DeclaredHandlers) private readonly declared: DeclaredHandlers,
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(ListChangedRelay) private readonly relay: ListChangedRelay,
    @Inject(ENDPOINT_NAME) private readonly endpoint: EndpointName,
    @Inject(MCP_OPTIONS) private readonly options: ResolvedHandlerOptions,
    @Inject(EndpointExtensions) private readonly extensions: EndpointExtensions,
    @Inject(EndpointCachePolicy) private readonly policy: EndpointCachePolicy,
    @Inject(EndpointHost) private readonly host: EndpointHost,
    @Inject(PluginHost) private readonly plugins: PluginHost,
  ) {}

  /** Finds the handlers. @throws McpHandlerDefinitionError, McpDuplicateHandlerError */
  onModuleInit(): void {
    this.host.attach();
    this.declared.load();
    this.extensions.load();
    // No client is connected yet: the handlers found at start are not announced as changes.
    this.relay.start();
  }

  /**
   * Runs when global guards are set, handlers are registered, and all modules exist.
   *
   * @throws McpHandlerDefinitionError also for a handler that needs an extension which no module has added
   */
  async onApplicationBootstrap(): Promise<void> {
    await this.plugins.start();
    this.extensions.loadViews();
    this.table.assertEach((entry) => this.#assertServed(entry));
    if (this.host.offer.serves === 'handlers') adviseOnHandlers(this.endpoint, this.options, this.policy, this.table);
  }

  onModuleDestroy(): void {
    this.relay.close();
    this.table.close();
  }

  #assertServed(entry: HandlerEntry): void {
    const needed = needsOf(entry).find(({ extension }) => !this.extensions.has(extension));
    if (needed) throw new McpHandlerDefinitionError(entry.origin, needed.unserved);
  }
}

/** Logs the effect of options that the app has not set, but may want to set. */
function adviseOnHandlers(
  { path }: EndpointName,
  { errorDetails, listGuards }: ResolvedHandlerOptions,
  policy: EndpointCachePolicy,
  table: HandlerTable,
): void {
  if (errorDetails === undefined) {
    logger.log(
      detailsForLocalCallers()
        ? `Clients of the endpoint "${path}" on this machine receive the messages of errors that its handlers throw, because NODE_ENV is not "production"; others receive a generic text. The option "errorDetails" changes this.`
        : `Clients of the endpoint "${path}" receive a generic text for errors that its handlers throw, because NODE_ENV is "production". The option "errorDetails" changes this; throw an HttpException for a message that clients should receive.`,
    );
  }
  const unnamed = policy.unnamedGuards();
  if (unnamed.length > 0) {
    logger.log(
      `The lists of the endpoint "${path}" are "private", although the scope of "listCache" is "public": a guard of ${unnamed.join(', ')}, made by a factory, may decide about callers. If no guard of the app does, set "guardedByApp: false".`,
    );
  }
  const guards = listGuards === undefined && !table.empty ? policy.namedGuards() : [];
  if (guards.length === 0) return;
  logger.log(
    `The endpoint "${path}" lists its handlers without running the global guards ${guards.join(', ')}: a list may show handlers that these guards refuse to the caller. Name the guards that decide by role in the option "listGuards", and none that counts calls or looks up a token; set "listGuards: []" if no guard should run.`,
  );
}
