import { Inject, Injectable } from '@nestjs/common';
import { deferred, type MaybePromise } from '../common/promises.js';
import { DivertedCalls } from '../calls/diverted-calls.js';
import type { CallPlugins } from '../calls/call-observer.js';
import type { CallHooks } from '../calls/call-plugins.js';
import type { McpCall, ResultBound } from '../calls/mcp-call.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import { logError } from '../calls/operator-log.js';
import { atOnce, PluginCallHooks, type PluginsOfCalls } from './call-hooks.js';
import type { ListedKind, McpEndpointHost, McpEndpointPlugin, McpHandlerHooks, McpPlugin } from './mcp-plugin.js';
import { DIVERTING, isAroundRounds, isInResults, type McpRing, RINGS, RINGS_OF_PLUGINS } from './rings.js';
import type { HookedRuns } from './run-hooks.js';

/** The features of the package at one endpoint: a list of {@link McpPlugin}. */
export const FEATURES = Symbol('nestjs-mcp-streamable:FEATURES');

interface Attached {
  readonly name: string;
  readonly ring: McpRing;
  readonly plugin: McpEndpointPlugin;
  /** The generation of the host that it has begun last. */
  readonly refreshed: { at: number };
}

/** A handler of the endpoint, with what plugins do with it. */
export interface Hooked {
  /** Returns an option of its decorator or registration, unchecked. */
  option(name: string): unknown;
  /** With its runs; absent: nothing. */
  runs?: HookedRuns | undefined;
  /** Limits its results; absent: they may have any size. */
  bound?: ResultBound | undefined;
  /** Whether lists leave it out, for all callers. */
  hidden?: boolean | undefined;
  /** What plugins have answered. It is out of date when the host has another generation. */
  asked?: Asked | undefined;
}

interface Asked {
  readonly host: PluginHost;
  readonly generation: number;
  /** By plugin, in the order of the rings. */
  readonly hooks: readonly (McpHandlerHooks | undefined)[];
}

/**
 * # The plugins of one endpoint, in the order of their rings
 *
 * What they answer about a handler is kept on the handler, so that a call asks no plugin. A plugin whose answers change begins a new
 * generation. A call or list that meets a handler of an older generation asks again the plugins that have done so since. So it is right
 * for handlers that are in no table, too: those of catalogues, and those that a call has found before it waited.
 */
@Injectable()
export class PluginHost implements CallPlugins {
  #attached: readonly Attached[] = [];
  #ofCalls: PluginsOfCalls = { observers: [], recorders: [], others: [] };
  #hiding: readonly McpEndpointPlugin[] = [];
  active = false;
  generation = 0;

  constructor(@Inject(DivertedCalls) private readonly diverted: Pick<DivertedCalls, 'add'> = new DivertedCalls()) {}

  /**
   * Attaches plugins, once. Those of one ring keep their order.
   *
   * @param hostFor returns the endpoint for a plugin, whose `refresh` is this function
   * @throws what `attach()` throws
   */
  attach(plugins: readonly McpPlugin[], hostFor: (refresh: McpEndpointHost['refresh']) => McpEndpointHost): void {
    const attached: Attached[] = [];
    this.#attached = attached;
    for (const each of plugins) {
      const refreshed = { at: 0 };
      const refresh = (kind?: ListedKind): void => {
        refreshed.at = ++this.generation;
        if (kind) host.changed(kind);
      };
      const host = hostFor(refresh);
      if (!RINGS_OF_PLUGINS.includes(each.ring)) {
        throw new TypeError(
          `The plugin ${each.constructor.name} has the ring ${JSON.stringify(each.ring)}, which does not exist.`,
        );
      }
      const plugin = atOnce(each.attach(host), 'attach()');
      if (plugin) attached.push({ name: each.constructor.name, ring: each.ring, plugin, refreshed });
    }
    attached.sort((one, other) => RINGS.indexOf(one.ring) - RINGS.indexOf(other.ring));
    const ofCalls = this.#attached.filter(({ plugin }) => 'call' in plugin);
    const inRings = (isThere: (ring: McpRing) => boolean) =>
      ofCalls.filter(({ ring }) => isThere(ring)).map(({ plugin }) => plugin);
    this.#ofCalls = {
      observers: inRings((ring) => ring === 'observe'),
      recorders: inRings((ring) => ring === 'record'),
      others: inRings((ring) => ring !== 'observe' && ring !== 'record'),
    };
    this.active = ofCalls.length > 0;
    this.#hiding = this.#attached.map(({ plugin }) => plugin).filter((plugin) => 'hides' in plugin);
  }

  /** Names the plugins that act on handlers, by their classes. */
  get ofHandlers(): readonly string[] {
    return this.#attached.filter(({ plugin }) => typeof plugin.handler === 'function').map(({ name }) => name);
  }

  /** Returns what a plugin does, by its class; `undefined`: none does it. While plugins are attached, it knows those before. */
  find<T extends object>(type: abstract new (...args: never[]) => T): T | undefined {
    const all = this.#attached.map(({ plugin }): object => plugin);
    return all.find((plugin): plugin is T => plugin instanceof type);
  }

  /** The names that plugins call sensitive; `undefined`: no plugin names any. */
  get sensitive(): readonly string[] | undefined {
    const named = this.#attached.flatMap(({ plugin }) => (plugin.sensitive ? [plugin.sensitive] : []));
    return named.length === 0 ? undefined : [...new Set(named.flat())];
  }

  /** Starts plugins one after the other. @throws (rejects) what stops the start */
  async start(): Promise<void> {
    for (const { plugin } of this.#attached) await plugin.started?.();
  }

  /** Sums up the timers that plugins have as long as the endpoint is open. */
  get standingTimers(): number {
    return this.#attached.reduce((total, { plugin }) => total + (plugin.standingTimers ?? 0), 0);
  }

  hooksOf(call: McpCall): CallHooks {
    return new PluginCallHooks(call, this.#ofCalls);
  }

  /**
   * Asks plugins about a handler: all of them at first, later those that have refreshed their answers.
   *
   * @throws at first: what refuses the handler
   */
  ask(handler: Hooked & McpHandlerTarget): void {
    const { generation } = this;
    const before = handler.asked;
    const hooks = this.#attached.map(({ plugin, refreshed }, index) => {
      if (!before) return atOnce(plugin.handler?.(handler), 'handler()');
      return refreshed.at > before.generation ? askedAgain(plugin, handler) : before.hooks[index];
    });
    handler.asked = { host: this, generation, hooks };
    const runs = (isThere: (ring: McpRing) => boolean) =>
      hooks.flatMap((each, index) => (each?.run && isThere(this.#attached[index]!.ring) ? [runOf(each)] : []));
    const aroundRounds = runs(isAroundRounds);
    const inRounds = runs((ring) => !isAroundRounds(ring) && !isInResults(ring));
    const inResults = runs(isInResults);
    const isHooked = aroundRounds.length + inRounds.length + inResults.length > 0;
    const diverted = runs((ring) => ring === DIVERTING).length > 0 ? this.diverted : undefined;
    handler.runs = isHooked ? { target: handler, aroundRounds, inRounds, inResults, diverted } : undefined;
    handler.bound = hooks.find((each) => each?.bound)?.bound;
    handler.hidden = hooks.some((each) => each?.hidden);
  }

  /** Whether lists depend on their caller: a plugin has `hides()`. */
  get hidesByCaller(): boolean {
    return this.#hiding.length > 0;
  }

  /** Returns whether a plugin hides a handler from a caller; one that fails hides it. */
  isHidden(handler: Hooked & McpHandlerTarget, call: McpCall): boolean {
    askIfOutdated(handler);
    return handler.hidden === true || this.#hiding.some((plugin) => hides(plugin, handler, call));
  }

  /**
   * Gives the work of plugins `limitMs` to end, the innermost first. None waits for another one, except for those that have diverted
   * calls: the others learn that all calls have ended when these are drained. Never rejects.
   *
   * @param callsEnded resolves when the calls have ended, or had their time
   */
  async drain(limitMs: number, callsEnded: Promise<unknown>): Promise<void> {
    const divertedEnded = deferred();
    const allEnded = Promise.all([callsEnded, divertedEnded.promise]);
    const drains = this.#attached.toReversed().map(({ ring, plugin }) => {
      const ended = ring === DIVERTING ? callsEnded : allEnded;
      return { ring, drained: stopped(() => plugin.drain?.(limitMs, ended)) };
    });
    await Promise.all(drains.filter(({ ring }) => ring === DIVERTING).map(({ drained }) => drained));
    divertedEnded.resolve();
    await Promise.all(drains.map(({ drained }) => drained));
  }

  /** Ends what a node has left that has died. @throws (rejects) what a plugin throws: then it is to be called again */
  async nodeDied(node: string): Promise<void> {
    await Promise.all(this.#attached.map(async ({ plugin }) => plugin.nodeDied?.(node)));
  }

  /** Closes plugins, the innermost first. Never rejects. */
  async close(): Promise<void> {
    for (const { plugin } of this.#attached.toReversed()) await stopped(() => plugin.close?.());
  }
}

/** Asks plugins again about a handler, if one of them has refreshed its answers since. */
export function askIfOutdated(handler: Hooked & McpHandlerTarget): void {
  const { asked } = handler;
  if (asked && asked.generation !== asked.host.generation) asked.host.ask(handler);
}

/** A plugin that fails keeps neither the others nor the node from their end. */
async function stopped(stop: () => MaybePromise<void> | undefined): Promise<void> {
  try {
    await stop();
  } catch (error) {
    logError(error);
  }
}

/** A handler that is served cannot be refused any more: its runs fail. */
function askedAgain(plugin: McpEndpointPlugin, handler: McpHandlerTarget): McpHandlerHooks | undefined {
  try {
    return atOnce(plugin.handler?.(handler), 'handler()');
  } catch (error) {
    const run = (): never => {
      throw error;
    };
    return { run };
  }
}

function runOf(hooks: McpHandlerHooks): NonNullable<McpHandlerHooks['run']> {
  return (run) => hooks.run!(run);
}

function hides(plugin: McpEndpointPlugin, handler: McpHandlerTarget, call: McpCall): boolean {
  try {
    return atOnce(plugin.hides!(handler, call), 'hides()');
  } catch (error) {
    logError(error);
    return true;
  }
}
