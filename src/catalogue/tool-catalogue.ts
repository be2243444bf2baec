import type { McpClock } from '../core/common/clock.js';
import { resolveGroup } from '../core/common/options.js';
import { quiet, within } from '../core/common/promises.js';
import { TwoGenerations } from '../core/common/two-generations.js';
import { runOutsideCalls } from '../core/calls/mcp-call.js';
import { logger } from '../core/calls/operator-log.js';
import type { KeptHandler } from '../core/plugins/handler-source.js';
import { excerpt, shown } from '../core/protocol/errors.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import type { MarkedClass } from '../core/handlers/discovery/endpoint-classes.js';
import type { ToolEntry } from '../core/handlers/registry/handler-table.js';
import type { RegisteredEntries } from '../core/handlers/registry/registered-entries.js';
import { inspected } from '../core/handlers/results/handler-failure.js';
import { type McpCatalogueTool, originOf, SCOPES_TABLE, textOf, toolOf } from './catalogue-tool.js';
import type { CatalogueProvider, ResolvedCatalogueOptions } from './catalogue.decorators.js';
import type { McpCaller } from '../core/calls/mcp-caller.js';

/** The tools of a caller by name, in the order of the names: pages of a list that changes neither repeat nor skip others. */
export type CallersTools = ReadonlyMap<string, ToolEntry>;

/** Runs the method `call`. */
type Invoker = ReturnType<MarkedClass['method']>;

interface KeptList {
  readonly principal: string | null;
  /** Settles when the list is there, or could not be made. */
  asked: Promise<CallersTools>;
  tools: CallersTools | undefined;
  expiresAt: number;
}

/** The tools of a caller whose list could not be made. */
export const UNKNOWN: CallersTools = new Map();
/** So many tools are made in one turn of the event loop: a schema that is not known takes a millisecond. */
const IN_ONE_TURN = 10;
/** At most so many remarks of a catalogue are logged, each once. */
const MAX_REMARKS = 100;
/** A remark has at most so many characters: a schema may have thousands of names. */
const REMARK_CHARACTERS = 1_000;
/** Equal tools of different callers are one entry; so many, twice, are known. */
const KNOWN_TOOLS = 5_000;
/** Tools that require equal scopes are run by one invoker; so many, twice, are known. */
const KNOWN_SCOPES = 100;

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
  readonly #invokers = new TwoGenerations<Invoker>(KNOWN_SCOPES);
  readonly #remarks = new Set<string>();
  #failing = false;

  /** Runs `call`. */
  readonly invoker: Invoker;

  /** @throws McpHandlerDefinitionError */
  constructor(
    private readonly provider: MarkedClass<ResolvedCatalogueOptions>,
    private readonly entries: RegisteredEntries,
    private readonly clock: McpClock,
  ) {
    this.invoker = provider.method();
  }

  get type(): MarkedClass['type'] {
    return this.provider.type;
  }

  /** Names the provider in messages, such as `PluginTools (PluginsModule)`. */
  get origin(): string {
    return this.provider.origin;
  }

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
    if (kept && (!kept.tools || kept.expiresAt > this.clock.now())) {
      this.#kept.delete(key);
      this.#kept.set(key, kept);
      return kept.tools ?? kept.asked;
    }
    return this.#ask(key, caller, request);
  }

  /** Returns the tools of the lists that are kept, those of the list that was used last first. */
  *kept(): Iterable<KeptHandler> {
    const now = this.clock.now();
    for (const { principal, tools, expiresAt } of [...this.#kept.values()].toReversed()) {
      if (tools && expiresAt > now) for (const entry of tools.values()) yield { entry, principal };
    }
  }

  /** Drops the lists of some principals, `null` for anonymous callers; without them all lists. */
  drop(only?: ReadonlySet<string | null>): void {
    if (!only) return this.#kept.clear();
    for (const [key, { principal }] of this.#kept) if (only.has(principal)) this.#kept.delete(key);
  }

  /** Logs why a tool is left out: once, and not for hundreds of tools. */
  remark(reason: string): void {
    const text = excerpt(reason, REMARK_CHARACTERS);
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
        list.expiresAt = this.clock.now() + this.provider.options.ttlMs;
        return (list.tools = tools);
      },
      (error: unknown) => {
        if (this.#kept.get(key) === list) this.#kept.delete(key);
        this.#failed(error);
        return UNKNOWN;
      },
    );
    this.#kept.delete(key);
    this.#kept.set(key, list);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.provider.options.maxPrincipals) break;
      this.#kept.delete(oldest);
    }
    return list.asked;
  }

  /** @throws what list() throws, or that it did not answer */
  async #answer(caller: McpCaller, request: unknown): Promise<CallersTools> {
    const { listTimeoutMs } = this.provider.options;
    // The call of the first asker must not decide what others get.
    const answer = quiet(
      runOutsideCalls(async () => ((await this.invoker.instance(request)) as CatalogueProvider).list(caller)),
    );
    if (!(await within(answer, listTimeoutMs, this.clock))) {
      throw new Error(`It did not answer within ${listTimeoutMs} ms ("listTimeoutMs").`);
    }
    const listed: unknown = await answer;
    if (!Array.isArray(listed)) throw new TypeError(`It must return an array of tools; it returned ${shown(listed)}.`);
    return this.#entriesOf(listed);
  }

  async #entriesOf(listed: readonly unknown[]): Promise<CallersTools> {
    const { maxTools } = this.provider.options;
    if (listed.length > maxTools) {
      this.remark(
        `list() returned ${listed.length} tools; the first ${maxTools} are served ("maxTools" of @McpCatalogue()).`,
      );
    }
    const entries = new Map<string, ToolEntry>();
    let made = 0;
    for (const tool of listed.slice(0, maxTools)) {
      try {
        const text = textOf(tool, this.origin);
        let entry = this.#known.get(text);
        if (!entry) {
          if (++made % IN_ONE_TURN === 0) await new Promise(setImmediate);
          entry = this.#entryOf(toolOf(text));
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

  /** @throws McpHandlerDefinitionError */
  #entryOf(options: McpCatalogueTool): ToolEntry {
    const origin = originOf(options, this.origin);
    return this.entries.toolOf(options, this.#invokerFor(options, origin), { origin, source: this.type.name });
  }

  /** @throws McpHandlerDefinitionError for what are no scopes */
  #invokerFor({ scopes }: McpCatalogueTool, origin: string): Invoker {
    if (scopes === undefined) return this.invoker;
    const key = JSON.stringify(scopes);
    let invoker = this.#invokers.get(key);
    if (invoker) return invoker;
    try {
      const given = Array.isArray(scopes) ? { all: scopes as readonly string[] } : scopes;
      invoker = this.provider.method(resolveGroup(SCOPES_TABLE, given, 'scopes'));
    } catch (cause) {
      const reason = `its "scopes" cannot be used: ${(cause as Error).message}`;
      throw new McpHandlerDefinitionError(origin, reason, { cause });
    }
    this.#invokers.set(key, invoker);
    return invoker;
  }

  #failed(error: unknown): void {
    if (this.#failing) return;
    this.#failing = true;
    logger.error(
      `list() of ${this.origin} failed, so its tools are missing. It is asked again for the next request; further failures are not logged until it answers. ${inspected(error)}`,
    );
  }
}

/** Returns a text that is the same for two callers if all of {@link McpCaller} is. */
function keyOf({ principal, scopes, routeParams }: McpCaller): string {
  return JSON.stringify([principal ?? null, scopes ?? null, routeParams ?? null]);
}
