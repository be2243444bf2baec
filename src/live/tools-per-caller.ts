import type { McpTarget } from '../core/calls/mcp-target.js';
import type { KeptHandler } from '../core/plugins/handler-source.js';
import type { EndpointHandlersView, ListedHandler, McpEndpointHost } from '../core/plugins/mcp-plugin.js';

/** At most this many names are kept; of lists, at most so many tools are looked at. */
const MOST_NAMES = 1_000;
const MOST_LOOKED_AT = 20_000;
/** At most this many callers of a tool are named. */
const MOST_CALLERS = 20;

/** A tool that some callers have, such as one of a catalogue. */
export interface ToolOfCallers {
  /** The tool of the caller who used it last. */
  readonly entry: ListedHandler;
  /** The callers whose lists have a tool of its name, `null` for anonymous ones; at most 20. */
  readonly principals: Set<string | null>;
  /** Whether there are more of them. */
  readonly more: boolean;
  /** Whether another caller has another tool of this name. */
  readonly varies: boolean;
}

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

/**
 * # Tools that are not in the table of the endpoint
 *
 * Catalogues list tools for each caller, and other sources find them for a call. Lists that a source keeps show them with their
 * callers. A tool that was called and is in no such list is shown as its latest call found it.
 */
export class ToolsPerCaller {
  #listed: ReadonlyMap<string, ToolOfCallers> = new Map();
  readonly #called = new Map<string, ListedHandler>();

  constructor(private readonly host: { readonly handlers: EndpointHandlersView } & Pick<McpEndpointHost, 'kept'>) {}

  /** Notes the tool of a call that has ended. */
  called(target: McpTarget | undefined): void {
    if (target?.kind !== 'tool' || !('wire' in target)) return;
    const { key } = target;
    if (this.host.handlers.get('tool', key) === target) return;
    if (this.#called.size < MOST_NAMES || this.#called.has(key)) this.#called.set(key, target as ListedHandler);
  }

  /** Reads the lists that are kept now. A page that is open asks every few seconds: there may be thousands. Never throws. */
  read(): void {
    const found = new Map<string, Writable<ToolOfCallers>>();
    try {
      let seen = 0;
      for (const kept of this.host.kept('tool')) {
        if (++seen > MOST_LOOKED_AT) break;
        this.#note(found, kept);
      }
    } catch {
      // A source of the app: its error would end the process in a timer.
    }
    this.#listed = found;
  }

  #note(found: Map<string, Writable<ToolOfCallers>>, { entry, principal }: KeptHandler): void {
    const known = found.get(entry.key);
    if (!known) {
      if (found.size === MOST_NAMES || this.host.handlers.get('tool', entry.key)) return;
      const tool = entry as unknown as ListedHandler;
      found.set(entry.key, { entry: tool, principals: new Set([principal]), more: false, varies: false });
      return;
    }
    known.varies ||= (known.entry as object) !== entry;
    if (known.principals.size < MOST_CALLERS) known.principals.add(principal);
    else known.more ||= !known.principals.has(principal);
  }

  names(): Iterable<string> {
    return this.#listed.keys();
  }

  get(name: string): ToolOfCallers | undefined {
    const listed = this.#listed.get(name);
    if (listed) return listed;
    const entry = this.#called.get(name);
    return entry && { entry, principals: new Set(), more: false, varies: false };
  }
}
