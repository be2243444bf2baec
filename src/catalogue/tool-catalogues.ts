import { isThenable, type MaybePromise } from '../core/common/promises.js';
import type { McpCall } from '../core/calls/mcp-call.js';
import { callerOf } from '../core/calls/mcp-caller.js';
import { retryLater, shown } from '../core/protocol/errors.js';
import { type HandlerSource, type KeptHandler, partOf, type SourcePage } from '../core/plugins/handler-source.js';
import type { ListedKind } from '../core/plugins/mcp-plugin.js';
import type { ToolEntry } from '../core/handlers/registry/handler-table.js';
import type { CatalogueChanges } from './catalogue-changes.js';
import { type CallersTools, type ToolCatalogue, UNKNOWN } from './tool-catalogue.js';

/** The ordinal of the catalogue, and the name of the tool. */
const PLACE = /^(\d{1,15}):(.*)$/s;

/** The tools of all catalogues of an endpoint. A call of a decorated or registered tool does not come here. */
export class ToolCatalogues implements HandlerSource {
  /** @param all at least one */
  constructor(
    private readonly all: readonly ToolCatalogue[],
    private readonly changes: Pick<CatalogueChanges, 'changed'>,
  ) {}

  get classes(): ToolCatalogue['type'][] {
    return this.all.map(({ type }) => type);
  }

  get summary(): string {
    return `tools per caller of ${this.classes.map(({ name }) => name).join(', ')}`;
  }

  changed(type: object, principal?: string | null): void {
    this.changes.changed(
      this.all.find((each) => each.type === type)!,
      principal,
    );
  }

  perCaller(kind: ListedKind): true | undefined {
    return kind === 'tool' || undefined;
  }

  *kept(kind: ListedKind): Iterable<KeptHandler> {
    if (kind === 'tool') for (const catalogue of this.all) yield* catalogue.kept();
  }

  /** Looks for the tool of a call in the list of its caller. */
  find(name: string, call: McpCall, kind: ListedKind): MaybePromise<ToolEntry | undefined> {
    if (kind !== 'tool') return undefined;
    const caller = callerOf(call);
    for (const [index, catalogue] of this.all.entries()) {
      const tools = catalogue.toolsOf(caller, call.request);
      if (isThenable(tools)) return this.#findFrom(index, name, call);
      const tool = tools.get(name);
      if (tool) return tool;
    }
    return undefined;
  }

  /** Returns tools in the order of the catalogues, and of the names. Of two with one name the first catalogue has precedence. */
  async page(
    _kind: ListedKind,
    call: McpCall,
    after: string | undefined,
    size: number,
  ): Promise<SourcePage | undefined> {
    const place = PLACE.exec(after ?? '');
    if (after !== undefined && !place) return undefined;
    const lists = await this.#listsOf(call);
    const items = lists.flatMap((tools, ordinal) =>
      Array.from(tools.values(), (entry) => ({ place: `${ordinal}:${entry.key}`, ordinal, entry })).filter(
        ({ entry }) => !this.#isTaken(entry, ordinal, lists),
      ),
    );
    return partOf(items, after, size, ({ ordinal, entry }) => {
      const first = Number(place![1]);
      return ordinal > first || (ordinal === first && entry.key > place![2]!);
    });
  }

  /** @throws (rejects) McpError UNAVAILABLE if a list could not be made: the tool may require scopes */
  async deciding(name: string, call: McpCall): Promise<ToolEntry | readonly object[]> {
    const lists = await this.#listsOf(call);
    const tool = lists.find((tools) => tools.has(name))?.get(name);
    if (tool) return tool;
    if (!lists.includes(UNKNOWN)) return this.all.map(({ invoker }) => invoker);
    const text = `The tools of this caller are not known at the moment, so it is not known who may ask about calls of ${shown(name)}. Try again later.`;
    throw retryLater('UNAVAILABLE', text, 5);
  }

  #listsOf(call: McpCall): Promise<readonly CallersTools[]> {
    const caller = callerOf(call);
    return Promise.all(this.all.map(async (each) => each.toolsOf(caller, call.request)));
  }

  /** Returns whether a catalogue before has a tool of that name, which the log says once. */
  #isTaken({ key }: ToolEntry, ordinal: number, lists: readonly CallersTools[]): boolean {
    const first = lists.findIndex((each) => each.has(key));
    if (first === ordinal) return false;
    const { origin } = this.all[first]!;
    this.all[ordinal]!.remark(`The tool ${shown(key)} is left out, because ${origin} has the same name.`);
    return true;
  }

  async #findFrom(first: number, name: string, call: McpCall): Promise<ToolEntry | undefined> {
    const caller = callerOf(call);
    // All are asked at once: those that hang cost one `listTimeoutMs`.
    const lists = this.all.slice(first).map((catalogue) => catalogue.toolsOf(caller, call.request));
    for (const list of lists) {
      const tool = (await list).get(name);
      if (tool) return tool;
    }
    return undefined;
  }
}
