import type { McpClock } from '../../common/clock.js';
import { quiet, within } from '../../common/promises.js';
import { runOutsideCalls } from '../../calls/mcp-call.js';
import { logger } from '../../calls/operator-log.js';
import { shown } from '../../protocol/errors.js';
import { isObject } from '../../protocol/json-rpc.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import type { FailureOptions, ToolResultOptions } from '../handlers.options.js';
import type { MethodInvoker } from '../invocation/handler-invokers.js';
import { toolEntry } from '../registry/entries.js';
import type { HandlerTable, ToolEntry } from '../registry/handler-table.js';
import { inspected } from '../results/handler-failure.js';
import type { CatalogueProvider, McpCatalogueTool, ResolvedCatalogueOptions } from './catalogue.decorators.js';
import { keyOf, type McpCaller } from './mcp-caller.js';
import type { SharedSchemas } from './shared-schemas.js';
import { TwoGenerations } from './two-generations.js';

/** The tools of a caller by name, in the order of the names: pages of a list that changes neither repeat nor skip others. */
export type CallersTools = ReadonlyMap<string, ToolEntry>;

interface KeptList {
  readonly principal: string | null;
  /** Settles when the list is there, or could not be made. */
  asked: Promise<CallersTools>;
  tools: CallersTools | undefined;
  expiresAt: number;
}

/** What all catalogues of an endpoint share. */
export interface CatalogueParts {
  readonly table: HandlerTable;
  readonly failures: FailureOptions & ToolResultOptions;
  readonly schemas: SharedSchemas;
  readonly clock: McpClock;
}

const NONE: CallersTools = new Map();
/** A property that is missing here does not compile. */
const PROPERTIES = Object.keys({
  name: true,
  title: true,
  description: true,
  icons: true,
  _meta: true,
  annotations: true,
  inputSchema: true,
  outputSchema: true,
  task: true,
  timeoutMs: true,
  maxResultBytes: true,
  textMirror: true,
} satisfies Record<keyof McpCatalogueTool, true>) as (keyof McpCatalogueTool)[];
/** These options of other tools are promises that no catalogue keeps. */
const PROMISES = ['confirm', 'idempotency', 'maxConcurrent', 'guards', 'visible'];
/** A tool has at most so many characters as JSON. */
const MAX_CHARACTERS = 262_144;
/** So many tools are made in one turn of the event loop: a schema that is not known takes a millisecond. */
const IN_ONE_TURN = 10;
/** At most so many remarks of a catalogue are logged, each once. */
const MAX_REMARKS = 100;
/** Equal tools of different callers are one entry; so many, twice, are known. */
const KNOWN_TOOLS = 5_000;

/**
 * # The tools of one provider with `@McpCatalogue()`
 *
 *     unknown ──ask──▶ asked ──list()──▶ kept ──drop(), ttlMs, maxPrincipals──▶ unknown
 *                        └──list() fails, or hangs: no tools for those who wait──▶ unknown
 *
 * A list is kept for a key that has all of the caller that `list()` sees. Callers with the same key that come while it is asked
 * share the answer.
 *
 * Invariants: an answer that was asked for before a `drop()` is not kept; at most `maxPrincipals` lists are kept; equal tools are one
 * entry while they are in use.
 */
export class ToolCatalogue {
  /** The list that was not used for the longest time is first. */
  readonly #kept = new Map<string, KeptList>();
  readonly #known = new TwoGenerations<ToolEntry>(KNOWN_TOOLS);
  readonly #remarks = new Set<string>();
  #failing = false;

  constructor(
    readonly type: { readonly name: string },
    /** Names the provider in messages, such as `PluginTools (PluginsModule)`. */
    readonly origin: string,
    /** Runs `call`. */
    readonly invoker: MethodInvoker,
    private readonly options: ResolvedCatalogueOptions,
    private readonly parts: CatalogueParts,
  ) {}

  /** Counts the lists that are kept or asked for. */
  get size(): number {
    return this.#kept.size;
  }

  /**
   * Returns the tools of a caller. Never rejects: without an answer there are none.
   *
   * @param request of the call, for providers whose guards are made for a request
   */
  toolsOf(caller: McpCaller, request: unknown): CallersTools | Promise<CallersTools> {
    const key = keyOf(caller);
    const kept = this.#kept.get(key);
    if (kept && (!kept.tools || kept.expiresAt > this.parts.clock.now())) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      return kept.tools ?? kept.asked;
    }
    return this.#ask(key, caller, request);
  }

  /** Returns a tool of a caller whose list is kept. */
  peek(caller: McpCaller, name: string): ToolEntry | undefined {
    return this.#kept.get(keyOf(caller))?.tools?.get(name);
  }

  /** Drops the lists of some principals, `null` for anonymous callers; without them all lists. */
  drop(only?: ReadonlySet<string | null>): void {
    if (!only) return this.#kept.clear();
    for (const [key, { principal }] of this.#kept) if (only.has(principal)) this.#kept.delete(key);
  }

  /** Logs why a tool is left out: once, and not for hundreds of tools. */
  remark(text: string): void {
    if (this.#remarks.has(text) || this.#remarks.size >= MAX_REMARKS) return;
    this.#remarks.add(text);
    logger.warn(`${this.origin}: ${text}`);
    if (this.#remarks.size === MAX_REMARKS) logger.warn(`${this.origin}: further remarks are not logged.`);
  }

  #ask(key: string, caller: McpCaller, request: unknown): Promise<CallersTools> {
    const list: KeptList = { principal: caller.principal ?? null, asked: undefined!, tools: undefined, expiresAt: 0 };
    list.asked = this.#answer(caller, request).then(
      (tools) => {
        this.#failing = false;
        list.expiresAt = this.parts.clock.now() + this.options.ttlMs;
        return (list.tools = tools);
      },
      (error: unknown) => {
        if (this.#kept.get(key) === list) this.#kept.delete(key);
        this.#failed(error);
        return NONE;
      },
    );
    this.#kept.delete(key);
    this.#kept.set(key, list);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.options.maxPrincipals) break;
      this.#kept.delete(oldest);
    }
    return list.asked;
  }

  /** @throws what list() throws, or that it did not answer */
  async #answer(caller: McpCaller, request: unknown): Promise<CallersTools> {
    const { listTimeoutMs } = this.options;
    // The call of the first asker must not decide what others get.
    const answer = quiet(
      runOutsideCalls(async () => ((await this.invoker.instance(request)) as CatalogueProvider).list(caller)),
    );
    if (!(await within(answer, listTimeoutMs, this.parts.clock))) {
      throw new Error(`It did not answer within ${listTimeoutMs} ms ("listTimeoutMs").`);
    }
    const listed: unknown = await answer;
    if (!Array.isArray(listed)) throw new TypeError(`It must return an array of tools; it returned ${shown(listed)}.`);
    return this.#entriesOf(listed);
  }

  async #entriesOf(listed: readonly unknown[]): Promise<CallersTools> {
    const { maxTools } = this.options;
    if (listed.length > maxTools) {
      this.remark(
        `list() returned ${listed.length} tools; the first ${maxTools} are served ("maxTools" of @McpCatalogue()).`,
      );
    }
    const entries = new Map<string, ToolEntry>();
    let made = 0;
    for (const tool of listed.slice(0, maxTools)) {
      try {
        const options = this.#optionsOf(tool);
        const text = this.#textOf(options);
        let entry = this.#known.get(text);
        if (!entry) {
          if (++made % IN_ONE_TURN === 0) await new Promise(setImmediate);
          entry = this.#entryOf(options);
          this.#known.set(text, entry);
        }
        if (entries.has(entry.key))
          this.remark(`list() returned the name ${shown(entry.key)} twice. The first one is served.`);
        else entries.set(entry.key, entry);
      } catch (error) {
        this.remark(`A tool is left out. ${error instanceof Error ? error.message : inspected(error)}`);
      }
    }
    return new Map([...entries].toSorted(([one], [other]) => (one < other ? -1 : 1)));
  }

  /**
   * Returns what a tool is made of, all of which is in its text: equal texts are one entry.
   *
   * @throws TypeError; McpHandlerDefinitionError for a property that no tool of a catalogue has
   */
  #optionsOf(tool: unknown): McpCatalogueTool {
    if (!isObject(tool)) throw new TypeError(`A tool must be an object; got ${shown(tool)}.`);
    const names = [...Object.keys(tool), ...PROMISES];
    const unknown = names.find((name) => !PROPERTIES.includes(name as never) && tool[name] !== undefined);
    if (unknown === undefined)
      return Object.fromEntries(
        PROPERTIES.flatMap((name) => (tool[name] === undefined ? [] : [[name, tool[name]]])),
      ) as unknown as McpCatalogueTool;
    const advice = PROMISES.includes(unknown)
      ? ': the tool would run without it. Use @Tool() or McpRegistry, or decide in "call".'
      : `. Return objects with these properties only: ${PROPERTIES.join(', ')}.`;
    const reason = `it has ${shown(unknown)}, which a tool of a catalogue cannot have${advice}`;
    throw new McpHandlerDefinitionError(this.#originOf(tool), reason);
  }

  /** @throws TypeError for what is no JSON; McpHandlerDefinitionError */
  #textOf(options: McpCatalogueTool): string {
    const text = JSON.stringify(options, (key, value: unknown) => {
      if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
      if (typeof value !== 'function') return value;
      const reason = `its ${shown(key)} is a function. A tool of a catalogue is data: equal tools of all callers are one.`;
      throw new McpHandlerDefinitionError(this.#originOf(options), reason);
    });
    if (text.length <= MAX_CHARACTERS) return text;
    const reason = `it has ${text.length} characters as JSON; the limit is ${MAX_CHARACTERS}.`;
    throw new McpHandlerDefinitionError(this.#originOf(options), reason);
  }

  #originOf({ name }: { readonly name?: unknown }): string {
    return `${typeof name === 'string' ? shown(name) : '(without a name)'} of ${this.origin}`;
  }

  /** @throws McpHandlerDefinitionError */
  #entryOf(options: McpCatalogueTool): ToolEntry {
    const { table, failures, schemas: compiler } = this.parts;
    const origin = this.#originOf(options);
    const entry = toolEntry(options, {
      origin,
      compiler,
      failures,
      source: this.type.name,
      runner: (validate) => this.invoker.named(options.name, validate),
    });
    table.assertServable(entry);
    return entry;
  }

  #failed(error: unknown): void {
    if (this.#failing) return;
    this.#failing = true;
    logger.error(
      `list() of ${this.origin} failed, so its tools are missing. It is asked again for the next request; further failures are not logged until it answers. ${inspected(error)}`,
    );
  }
}
