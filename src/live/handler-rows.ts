import type { OffSwitch } from '../core/plugins/off-switch.js';
import type { EndpointHandlersView, ListedHandler } from '../core/plugins/mcp-plugin.js';
import { cut } from './live-events.js';
import type { Row } from './live-state.js';
import type { ToolsPerCaller } from './tools-per-caller.js';
import { OTHERS, type ToolRow } from './statistics.js';

/** The page lists at most this many handlers of a kind; of tools, those that were called come first. */
const MOST_LISTED = 1_000;
/** The beginning of a description has at most this many characters. */
const SUMMARY = 140;
const NEVER_CALLED = { calls: 0, errors: 0, p50: 0, p95: 0, spark: [] as readonly number[] };
const NO_TOOL = { title: '', about: '', of: '', id: null, off: null };

/** A row of a tool, or of a method that was called. */
interface OfferedTool extends ToolRow {
  /** Actions name the tool by it, whatever its name; `null`: it cannot be switched. */
  readonly id: string | null;
  /** The reason why the tool is switched off; `null`: it is on. */
  readonly off: string | null;
  readonly title: string;
  /** The beginning of its description. */
  readonly about: string;
  /** Names what lists it for each caller, such as the class of a catalogue; empty: all callers have it, as far as guards let them. */
  readonly of: string;
}

/**
 * # What an endpoint offers, as rows
 *
 * The part of a row that does not change is made once for each entry of the table.
 */
export class HandlerRows {
  readonly #rows = new WeakMap<object, Row>();
  readonly #tools = new WeakMap<object, OfferedTool>();

  /**
   * @param handlers of an endpoint; with the option `server` it has none: the page shows the tools that were called
   * @param idOf makes the id of a tool for actions
   */
  constructor(
    private readonly handlers: EndpointHandlersView,
    private readonly perCaller: Pick<ToolsPerCaller, 'get' | 'names'>,
    private readonly off: () => OffSwitch | undefined,
    private readonly idOf: (name: string) => string,
  ) {}

  /** @param called statistics of tools and methods that were called */
  tools(called: readonly ToolRow[]): OfferedTool[] {
    const rows: OfferedTool[] = [];
    const known = new Set<string>();
    const off = this.off();
    const withSwitch = (tool: OfferedTool) => {
      known.add(tool.name);
      const switched = off?.get('tool', tool.name);
      rows.push(switched ? { ...tool, off: cut(switched.reason ?? '') } : tool);
    };
    for (const row of called) {
      if (row.kind === 'tool' && row.name !== OTHERS) withSwitch({ ...this.#tool(row.name), ...row });
      else rows.push({ ...NO_TOOL, ...row });
    }
    for (const { key } of this.handlers.all('tool')) {
      if (rows.length >= MOST_LISTED) break;
      if (!known.has(key)) withSwitch(this.#tool(key));
    }
    for (const name of this.perCaller.names()) {
      if (rows.length >= MOST_LISTED) break;
      if (!known.has(name)) withSwitch(this.#tool(name));
    }
    // A tool that was switched off may be gone, or not yet registered.
    for (const name of off?.keys('tool') ?? []) if (!known.has(name)) withSwitch(this.#tool(name));
    return rows;
  }

  /** Lists the resources, templates and prompts. */
  others(): Row[] {
    return (['resource', 'template', 'prompt'] as const).flatMap((kind) =>
      Array.from(this.handlers.all(kind), (entry) => this.#offer(entry)).slice(0, MOST_LISTED),
    );
  }

  #tool(name: string): OfferedTool {
    const own = this.handlers.get('tool', name);
    const entry = own ?? this.perCaller.get(name)?.entry;
    const made = entry && this.#tools.get(entry);
    if (made) return made;
    const row = {
      key: `tool ${name}`,
      kind: 'tool' as const,
      name,
      title: entry ? titleOf(entry) : '',
      about: entry ? summaryOf(entry) : '',
      of: entry && !own ? (entry.source ?? entry.origin) : '',
      id: this.idOf(name),
      off: null,
      ...NEVER_CALLED,
    };
    if (entry) this.#tools.set(entry, row);
    return row;
  }

  #offer(entry: ListedHandler): Row {
    let row = this.#rows.get(entry);
    if (!row) {
      const { kind, key } = entry;
      this.#rows.set(
        entry,
        (row = { key: `${kind} ${key}`, kind, name: key, title: titleOf(entry), about: summaryOf(entry) }),
      );
    }
    return row;
  }
}

/** Returns the title, which tools may also have among their annotations. */
function titleOf({ wire }: ListedHandler): string {
  const { title, annotations } = wire as {
    readonly title?: string;
    readonly annotations?: { readonly title?: string };
  };
  return cut(title ?? annotations?.title ?? '');
}

function summaryOf({ wire: { description = '' } }: ListedHandler): string {
  return cut(description.replaceAll(/\s+/g, ' '), SUMMARY);
}
