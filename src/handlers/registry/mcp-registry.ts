import type { Prompt, Resource, ResourceTemplateType, Tool } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import type { Observable } from 'rxjs';
import { shown } from '../../wire/wire.messages.js';
import type { ResourceTemplateArgs } from '../decorators/handler-options.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { HANDLER_OPTIONS, type FailureOptions } from '../handlers.options.js';
import { comesInParts, Drain } from '../results/drain.js';
import type { HandlerRunner } from '../results/handler-outcome.js';
import type { Validate } from '../schema/handler-schema.js';
import { SchemaCompiler } from '../schema/schema-compiler.js';
import { type EntrySource, promptEntry, resourceEntry, templateEntry, toolEntry } from './entries.js';
import type { HandlerEntry, HandlerKind } from './handler-entry.js';
import { type HandlerListChange, HandlerTable } from './handler-table.js';
import type {
  HandlerFunction,
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
@Injectable()
export class McpRegistry {
  /** @internal */
  constructor(
    @Inject(HandlerTable) private readonly table: HandlerTable,
    @Inject(HANDLER_OPTIONS) private readonly failures: FailureOptions,
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
    return this.#register('tool', tool);
  }

  /**
   * Adds a resource with a fixed URI.
   *
   * @throws HandlerDefinitionError when it cannot be served
   * @throws DuplicateHandlerError when there is a resource with that URI
   */
  registerResource(resource: ResourceRegistration): McpRegistration<Partial<Omit<ResourceRegistration, 'uri'>>> {
    return this.#register('resource', resource);
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
    return this.#register('template', template);
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
    return this.#register('prompt', prompt);
  }

  /** Everything of a kind, decorated and registered, in the order of the list, whether a caller may see it or not. */
  list<Kind extends HandlerKind>(kind: Kind): McpHandlerInfo<Readonly<McpListed[Kind]>>[] {
    return Array.from(this.table.all(kind), ({ key, origin, wire, guarded }) => ({
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
  ): McpRegistration<Changes> {
    let current = { ...registration };
    let entry = registeredEntry(kind, current, this.failures);
    const { key, origin } = entry;
    this.table.add(entry);
    const present = (): boolean => this.table.get(kind, key) === entry;
    return {
      key,
      update: (changes) => {
        if (!present()) throw new HandlerDefinitionError(origin, 'it was removed, and cannot be updated any more.');
        const next = { ...current, ...changes, [KEYS[kind]]: key };
        const changed = registeredEntry(kind, next, this.failures);
        [current, entry] = [next, changed];
        this.table.replace(changed);
      },
      remove: () => present() && this.table.remove(kind, key),
    };
  }
}

/** What can be registered, by kind. */
interface Registrations {
  tool: ToolRegistration<never>;
  resource: ResourceRegistration;
  template: ResourceTemplateRegistration<never>;
  prompt: PromptRegistration<never>;
}

/** The option that is the key of an entry. */
const KEYS = { tool: 'name', resource: 'uri', template: 'uriTemplate', prompt: 'name' } as const;

const ENTRIES: {
  readonly [Kind in HandlerKind]: (registration: Registrations[Kind], source: EntrySource) => HandlerEntry;
} = { tool: toolEntry, resource: resourceEntry, template: templateEntry, prompt: promptEntry };

/** Makes an entry of a registration. @throws HandlerDefinitionError */
function registeredEntry<Kind extends HandlerKind>(
  kind: Kind,
  registration: Registrations[Kind],
  failures: FailureOptions,
): HandlerEntry {
  const { handler, complete = {} } = registration as ToolRegistration<never> & Pick<PromptRegistration, 'complete'>;
  const origin = `${kind} ${shown(Reflect.get(registration, KEYS[kind]))} (registered at run time)`;
  if (typeof handler !== 'function') {
    throw new HandlerDefinitionError(origin, `its "handler" must be a function; got ${shown(handler)}.`);
  }
  return ENTRIES[kind](registration, {
    origin,
    failures,
    // Goes when the entry goes.
    compiler: new SchemaCompiler(),
    runner: (validate) => functionRunner(handler, origin, validate),
    completions: Object.entries(complete).map(([argument, propose]) => ({ origin, argument, propose })),
  });
}

/** Runs a function as a handler. Nothing of Nest runs around it: the guards of the endpoint have let the caller in. */
function functionRunner(
  handler: HandlerFunction<never>,
  origin: string,
  validate: Validate | undefined,
): HandlerRunner {
  return {
    async run(raw, context) {
      const args: unknown = validate ? await validate(raw) : raw;
      const returned = await handler(args as never, context);
      return comesInParts(returned) ? new Drain(returned, context, origin).result : returned;
    },
    visible: () => true,
    admits: () => Promise.resolve(true),
    guarded: false,
  };
}
