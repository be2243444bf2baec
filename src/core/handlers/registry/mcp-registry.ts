import type { Prompt, Resource, ResourceTemplateType, Tool } from '@modelcontextprotocol/server';
import { Inject, Injectable, type Type } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { logger } from '../../calls/operator-log.js';
import { shown } from '../../protocol/errors.js';
import type { ResourceTemplateArgs } from '../decorators/handler-options.js';
import { McpHandlerDefinitionError, namesText } from '../handlers.errors.js';
import type { ArgumentsOf, TypedSchema } from '../schema/schema-types.js';
import { EndpointSources } from './endpoint-sources.js';
import { type McpHandlerListChange, HandlerTable, type ListedEntry, type ListedKind } from './handler-table.js';
import { McpEndpointHost } from '../../plugins/mcp-plugin.js';
import { OffSwitch } from '../../plugins/off-switch.js';
import {
  KEYS,
  type McpPromptRegistration,
  type McpResourceRegistration,
  type McpResourceTemplateRegistration,
  type McpToolRegistration,
  RegisteredEntries,
  type Registrations,
} from './registered-entries.js';
import { keyOf } from './uri-template.js';

/** A registered handler, which can be updated or removed. @publicApi */
export interface McpRegistration<Changes> {
  /** The name of the tool or prompt, the URI of the resource, the URI template of the template. */
  readonly key: string;
  /**
   * Replaces values of the entry, which keeps its place in the list. Running calls continue with the old values.
   *
   * @throws McpHandlerDefinitionError when the result cannot be served, or when it was removed; nothing has changed then
   */
  update(changes: Changes): void;
  /**
   * Removes the entry. Running calls continue.
   *
   * @returns whether it was still there
   */
  remove(): boolean;
}

/** Describes a handler in the registry. @publicApi */
export interface McpHandlerInfo<Wire = Readonly<Record<string, unknown>>> {
  readonly kind: 'tool' | 'resource' | 'template' | 'prompt';
  readonly key: string;
  /** Names the handler, such as `OrderTools.find (OrdersModule)`, or says that it was registered at run time. */
  readonly origin: string;
  /** Lists show this part; frozen. */
  readonly wire: Wire;
  /** Whether guards decide who sees it. */
  readonly guarded: boolean;
  /** Present while the handler is switched off: see `disable()`. */
  readonly disabled?: {
    readonly reason: string | undefined;
    /** Milliseconds since the epoch, by the clock of the node that switched it off. */
    readonly since: number;
  };
}

/** Maps a kind to what lists show of it. @internal */
export interface McpListed {
  tool: Tool;
  resource: Resource;
  template: ResourceTemplateType;
  prompt: Prompt;
}

/**
 * Lists and changes the handlers of an endpoint while it runs. Each change is announced to the sessions
 * (`list_changed`), once per list and turn of the event loop.
 *
 * ```ts
 * constructor(private readonly registry: McpRegistry) {}
 *
 * onPluginLoaded(plugin: Plugin): void {
 *   const tool = this.registry.registerTool({ name: plugin.name, inputSchema: plugin.schema, handler: (args) =>
 *   plugin.run(args) });
 *   plugin.onUnload(() => tool.remove());
 * }
 * ```
 *
 * It belongs to this process: what one node registers, the others do not have. Register the same on all of them.
 *
 * An app with several endpoints injects it by name: `@InjectMcp(McpRegistry, name)`.
 *
 * @publicApi
 */
@Injectable()
export class McpRegistry {
  /** @internal */
  constructor(
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(McpEndpointHost) private readonly endpoint: Pick<McpEndpointHost, 'find' | 'offer' | 'path'>,
    @Inject(EndpointSources) private readonly sources: Pick<EndpointSources, 'mayHave' | 'added'>,
    @Inject(RegisteredEntries) private readonly entries: RegisteredEntries,
  ) {}

  /** Emits after each change of a list, also those that decorators caused at start. Completes when the endpoint closes. */
  get changes$(): Observable<McpHandlerListChange> {
    return this.table.changes$;
  }

  /**
   * Adds a tool. The guards, interceptors, pipes and filters of the app (`APP_GUARD`, `useGlobalFilters()`, …) run around its handler, as
   * around a decorated one, with `guards` of its own; for them its class is `McpRegistry`.
   *
   * @throws McpHandlerDefinitionError when it cannot be served
   * @throws McpDuplicateHandlerError when there is a tool of that name
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
   */
  registerTool<Schema extends TypedSchema>(
    tool: McpToolRegistration<ArgumentsOf<Schema>> & { inputSchema: Schema },
  ): McpRegistration<Partial<Omit<McpToolRegistration<ArgumentsOf<Schema>>, 'name'>>>;
  /** Adds a tool with a JSON Schema, or without arguments. */
  registerTool<Args = Record<string, unknown>>(
    tool: McpToolRegistration<Args>,
  ): McpRegistration<Partial<Omit<McpToolRegistration<Args>, 'name'>>>;
  registerTool(tool: McpToolRegistration<never>): McpRegistration<Partial<Omit<McpToolRegistration<never>, 'name'>>> {
    return this.#register('tool', tool);
  }

  /**
   * Adds a resource with a fixed URI; the enhancers of the app run around its handler.
   *
   * @throws McpHandlerDefinitionError when it cannot be served
   * @throws McpDuplicateHandlerError when there is a resource with that URI
   */
  registerResource(resource: McpResourceRegistration): McpRegistration<Partial<Omit<McpResourceRegistration, 'uri'>>> {
    return this.#register('resource', resource);
  }

  /**
   * Adds a resource template; the enhancers of the app run around its functions.
   *
   * @throws McpHandlerDefinitionError when it cannot be served
   * @throws McpDuplicateHandlerError when there is that template
   */
  registerResourceTemplate<Args = ResourceTemplateArgs>(
    template: McpResourceTemplateRegistration<Args>,
  ): McpRegistration<Partial<Omit<McpResourceTemplateRegistration<Args>, 'uriTemplate'>>> {
    return this.#register('template', template);
  }

  /**
   * Adds a prompt; the enhancers of the app run around its handler.
   *
   * @throws McpHandlerDefinitionError when it cannot be served
   * @throws McpDuplicateHandlerError when there is a prompt of that name
   */
  registerPrompt<Schema extends TypedSchema>(
    prompt: McpPromptRegistration<ArgumentsOf<Schema>> & { inputSchema: Schema },
  ): McpRegistration<Partial<Omit<McpPromptRegistration<ArgumentsOf<Schema>>, 'name'>>>;
  /** Adds a prompt with a JSON Schema, or with `arguments`. */
  registerPrompt<Args = Record<string, unknown>>(
    prompt: McpPromptRegistration<Args>,
  ): McpRegistration<Partial<Omit<McpPromptRegistration<Args>, 'name'>>>;
  registerPrompt(
    prompt: McpPromptRegistration<never>,
  ): McpRegistration<Partial<Omit<McpPromptRegistration<never>, 'name'>>> {
    return this.#register('prompt', prompt);
  }

  /**
   * Returns everything of a kind, decorated and registered, in the order of the list, whether a caller may see it or
   * not.
   */
  list<Kind extends ListedKind>(kind: Kind): McpHandlerInfo<Readonly<McpListed[Kind]>>[] {
    const switches = this.endpoint.find(OffSwitch);
    return Array.from(this.table.all(kind), ({ key, origin, wire, guarded }) => {
      const disabled = switches?.get(kind, key);
      const shown = wire as unknown as Readonly<McpListed[Kind]>;
      return { kind, key, origin, wire: shown, guarded, ...(disabled && { disabled }) };
    });
  }

  /**
   * Switches a handler off on all nodes, decorated or registered, until `enable()`: lists omit it, and calls are refused with the
   * reason, which the model reads. Calls that run continue. It stays off over restarts if the app has a `stateStore` or `backend`.
   *
   * ```ts
   * await this.registry.disable('refund', { reason: 'The payment provider is down. Try again after 15:00.' });
   * ```
   *
   * This node refuses calls at once; the promise is about the others.
   *
   * @param key the name of the tool or prompt, the URI of the resource, the URI template. There need not be a handler yet; a log line
   *   says so
   * @param options `kind`, by default a tool; `reason`: for callers, at most 500 characters
   * @returns resolves when it is stored, and the other nodes were notified
   * @throws (rejects) McpStateError STORE_UNAVAILABLE; TypeError for a key or reason that cannot be used
   */
  async disable(key: string, options: { reason?: string; kind?: McpHandlerInfo['kind'] } = {}): Promise<void> {
    const { kind = 'tool', reason } = options;
    assertSwitchable(kind, key);
    if (reason !== undefined && (typeof reason !== 'string' || reason.length > MAX_REASON)) {
      throw new TypeError(
        `The reason to switch off ${kind} ${shown(key)} must be a text of at most ${MAX_REASON} characters.`,
      );
    }
    if (!this.sources.mayHave(kind) && !this.table.get(kind, key)) {
      logger.warn(
        `disable(): this endpoint has no ${kind} ${shown(key)} yet. The name stays switched off until enable(); a ${kind} that is registered later is off.`,
      );
    }
    const off = { reason: reason?.trim() === '' ? undefined : reason };
    await this.#switchOf(kind, key).set(kind, keyOf(kind, key), off);
  }

  /**
   * Switches a handler on again, on all nodes. No effect on one that is on.
   *
   * @param options `kind`, by default a tool
   * @throws (rejects) as `disable()`
   */
  async enable(key: string, { kind = 'tool' }: { kind?: McpHandlerInfo['kind'] } = {}): Promise<void> {
    assertSwitchable(kind, key);
    await this.#switchOf(kind, key).set(kind, keyOf(kind, key), undefined);
  }

  /**
   * Says that the tools of a class with `@McpCatalogue()` have changed. The lists of the principal are dropped on all nodes, and its
   * clients are notified: sessions, and subscribers of the era without sessions. The changes of a turn of the event loop are one
   * notification.
   *
   * @param catalogue the class
   * @param principal whose tools have changed; `null`: those of anonymous callers. @default those of all callers
   * @throws McpHandlerDefinitionError for a class that is no catalogue of this endpoint
   */
  changed(catalogue: Type<unknown>, principal?: string | null): void {
    const { added } = this.sources;
    const source = added.find(({ classes = [] }) => classes.includes(catalogue));
    if (source) return source.changed?.(catalogue, principal);
    const known = namesText(added.flatMap(({ classes = [] }) => classes.map(({ name }) => name)));
    const reason = `changed() takes a class with @McpCatalogue() that a module of this endpoint provides; this class is not one. ${known}`;
    throw new McpHandlerDefinitionError(shown(catalogue.name), reason);
  }

  /**
   * Makes an entry for a source, see `McpEndpointHost.entryOf()`.
   *
   * @throws McpHandlerDefinitionError, and what plugins throw
   * @internal
   */
  entryOf(kind: ListedKind, registration: object, source: string): ListedEntry {
    const entry = this.entries.make(kind, registration as Registrations[typeof kind], this, source);
    this.table.assertServable(entry);
    return entry;
  }

  /** @throws McpHandlerDefinitionError at an endpoint that has no switch: not yet, or because servers are served */
  #switchOf(kind: ListedKind, key: string): OffSwitch {
    const origin = `${kind} "${key}"`;
    const { offer, path } = this.endpoint;
    offer.assertHandlers(
      origin,
      'its endpoint has the option "server", whose handlers are those of the SDK. Disable it there.',
    );
    const found = this.endpoint.find(OffSwitch);
    if (found) return found;
    const reason = `its endpoint "${path}" has not started yet, so that it cannot be switched off or on. Do so in onApplicationBootstrap(), or later.`;
    throw new McpHandlerDefinitionError(origin, reason);
  }

  #register<Kind extends ListedKind, Changes extends object>(
    kind: Kind,
    registration: Registrations[Kind],
  ): McpRegistration<Changes> {
    let current = { ...registration };
    let entry = this.entries.make(kind, current, this);
    const { key, origin } = entry;
    this.table.add(entry);
    const present = (): boolean => this.table.get(kind, key) === entry;
    return {
      key,
      update: (changes) => {
        if (!present()) throw new McpHandlerDefinitionError(origin, 'it was removed, and can no longer be updated.');
        const next = { ...current, ...changes, [KEYS[kind]]: key };
        const changed = this.entries.make(kind, next, this);
        const before = [current, entry] as const;
        // A listener to the change may update it again.
        [current, entry] = [next, changed];
        try {
          this.table.replace(changed);
        } catch (error) {
          [current, entry] = before;
          throw error;
        }
      },
      remove: () => present() && this.table.remove(kind, key),
    };
  }
}

/** A reason has at most so many characters: each refused call sends it. */
const MAX_REASON = 500;
/** A key has at most so many: all are stored together. */
const MAX_KEY = 2_000;

/** @throws TypeError */
function assertSwitchable(kind: string, key: unknown): void {
  if (!Object.hasOwn(KEYS, kind)) {
    const kinds = Object.keys(KEYS).join(', ');
    throw new TypeError(`A handler of the kind ${shown(kind)} cannot be switched off. The kinds are: ${kinds}.`);
  }
  if (typeof key === 'string' && key !== '' && key.length <= MAX_KEY) return;
  throw new TypeError(
    `The name of a handler to be switched must be a text of at most ${MAX_KEY} characters; got ${shown(key)}.`,
  );
}
