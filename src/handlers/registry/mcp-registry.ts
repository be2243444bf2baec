import type { Prompt, Resource, ResourceTemplateType, Tool } from '@modelcontextprotocol/server';
import type { Observable } from 'rxjs';
import type { ResourceTemplateArgs } from '../definitions/handler-options.js';
import type { HandlerKind } from '../handler-entry.js';
import type { HandlerListChange, HandlerTable } from '../handler-table.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import type { FailureOptions } from '../handlers.options.js';
import { handlerMessages } from '../handlers.messages.js';
import { originOf, registeredEntry, type Registrations } from './registered-entry.js';
import type {
  McpHandlerInfo,
  McpRegistration,
  PromptRegistration,
  ResourceRegistration,
  ResourceTemplateRegistration,
  ToolRegistration,
} from './registrations.js';

/** What lists show, by kind. @publicApi */
export interface McpListed {
  tool: Tool;
  resource: Resource;
  template: ResourceTemplateType;
  prompt: Prompt;
}

/**
 * What an endpoint offers, to be looked at and changed while it runs. Each change is announced to the sessions
 * (`list_changed`), once per list and turn of the event loop.
 *
 * ```ts
 * constructor(private readonly registry: McpRegistry) {}
 *
 * onPluginLoaded(plugin: Plugin): void {
 *   const tool = this.registry.registerTool({ name: plugin.name, inputSchema: plugin.schema, handler: (args) => plugin.run(args) });
 *   plugin.onUnload(() => tool.remove());
 * }
 * ```
 *
 * It belongs to this process: what one node registers, the others do not have. Register the same on all of them.
 *
 * With several endpoints: `@InjectMcpRegistry(name)`.
 *
 * @publicApi
 */
export class McpRegistry {
  /** @internal */
  constructor(
    private readonly table: HandlerTable,
    /** The endpoint makes its servers itself and would not serve what is registered. */
    private readonly ownServers: boolean,
    private readonly failures: FailureOptions,
  ) {}

  /** Emits after each change of a list, also those that decorators caused at start. Completes when the endpoint closes. */
  get changes$(): Observable<HandlerListChange> {
    return this.table.changes$;
  }

  /**
   * Adds a tool. Nothing of Nest runs around its handler: guards of the endpoint alone decide who may call it.
   *
   * @throws HandlerDefinitionError when it cannot be served
   * @throws DuplicateHandlerError when there is a tool of that name
   * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
   */
  registerTool<Args = Record<string, unknown>>(
    tool: ToolRegistration<Args>,
  ): McpRegistration<Partial<Omit<ToolRegistration<Args>, 'name'>>> {
    return this.#register('tool', tool, 'name');
  }

  /**
   * Adds a resource with a fixed URI.
   *
   * @throws HandlerDefinitionError when it cannot be served
   * @throws DuplicateHandlerError when there is a resource with that URI
   */
  registerResource(resource: ResourceRegistration): McpRegistration<Partial<Omit<ResourceRegistration, 'uri'>>> {
    return this.#register('resource', resource, 'uri');
  }

  /**
   * Adds a resource template.
   *
   * @throws HandlerDefinitionError when it cannot be served
   * @throws DuplicateHandlerError when there is that template
   */
  registerResourceTemplate<Args = ResourceTemplateArgs>(
    template: ResourceTemplateRegistration<Args>,
  ): McpRegistration<Partial<Omit<ResourceTemplateRegistration<Args>, 'uriTemplate'>>> {
    return this.#register('template', template, 'uriTemplate');
  }

  /**
   * Adds a prompt.
   *
   * @throws HandlerDefinitionError when it cannot be served
   * @throws DuplicateHandlerError when there is a prompt of that name
   */
  registerPrompt<Args = Record<string, unknown>>(
    prompt: PromptRegistration<Args>,
  ): McpRegistration<Partial<Omit<PromptRegistration<Args>, 'name'>>> {
    return this.#register('prompt', prompt, 'name');
  }

  /** Everything of a kind, decorated and registered, in the order of the list, whoever may see it. */
  list<Kind extends HandlerKind>(kind: Kind): McpHandlerInfo<Readonly<McpListed[Kind]>>[] {
    return [...this.table.all(kind)].map(({ key, origin, wire, guarded }) => ({
      kind,
      key,
      origin,
      wire: wire as unknown as Readonly<McpListed[Kind]>,
      guarded,
    }));
  }

  #register<Kind extends HandlerKind, Changes extends object>(
    kind: Kind,
    registration: Registrations[Kind],
    identity: string,
  ): McpRegistration<Changes> {
    if (this.ownServers) throw new HandlerDefinitionError(originOf(kind, registration), handlerMessages.ownServers());
    let current = { ...registration };
    let entry = registeredEntry(kind, current, this.failures);
    const { key, origin } = entry;
    this.table.add(entry);
    const present = (): boolean => this.table.get(kind, key) === entry;
    return {
      key,
      update: (changes) => {
        if (!present()) throw new HandlerDefinitionError(origin, handlerMessages.removed());
        const next = { ...current, ...changes, [identity]: key };
        const changed = registeredEntry(kind, next, this.failures);
        [current, entry] = [next, changed];
        this.table.replace(changed);
      },
      remove: () => present() && this.table.remove(kind, key),
    };
  }
}
