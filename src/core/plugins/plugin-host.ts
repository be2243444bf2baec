import { Injectable } from '@nestjs/common';
import type { MaybePromise } from '../common/promises.js';
import type { CallHooks, CallPlugins } from '../calls/call-hooks.js';
import type { McpCall, ResultBound } from '../calls/mcp-call.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import { logError } from '../calls/operator-log.js';
import { PluginCallHooks } from './call-hooks.js';
import type { McpEndpointHost, McpEndpointPlugin, McpHandlerHooks, McpPlugin } from './mcp-plugin.js';
import { isAroundRounds, isInResults, type McpRing, RINGS } from './rings.js';
import type { HookedRuns } from './run-hooks.js';

/** The features of the package at one endpoint: a list of {@link McpPlugin}. */
export const FEATURES = Symbol('nestjs-mcp-streamable:FEATURES');

interface Attached {
  readonly ring: McpRing;
  readonly plugin: McpEndpointPlugin;
}

/** Holds the plugins of one endpoint, in the order of their rings. */
@Injectable()
export class PluginHost implements CallPlugins {
  #attached: readonly Attached[] = [];
  #observers: readonly McpEndpointPlugin[] = [];
  #others: readonly McpEndpointPlugin[] = [];
  active = false;

  /** Attaches plugins, once. Those of one ring keep their order. @throws what `attach()` throws */
  attach(plugins: readonly McpPlugin[], endpoint: McpEndpointHost): void {
    this.#attached = plugins
      .flatMap((each) => {
        const plugin = each.attach(endpoint);
        return plugin ? [{ ring: each.ring, plugin }] : [];
      })
      .toSorted((one, other) => RINGS.indexOf(one.ring) - RINGS.indexOf(other.ring));
    const ofCalls = this.#attached.filter(({ plugin }) => 'call' in plugin);
    this.#observers = ofCalls.filter(({ ring }) => ring === 'observe').map(({ plugin }) => plugin);
    this.#others = ofCalls.filter(({ ring }) => ring !== 'observe').map(({ plugin }) => plugin);
    this.active = ofCalls.length > 0;
  }

  hooksOf(call: McpCall): CallHooks {
    return new PluginCallHooks(call, this.#observers, this.#others);
  }

  /** Asks all plugins about a handler. @throws what refuses it */
  hooksOfHandler(target: McpHandlerTarget): {
    readonly runs: HookedRuns | undefined;
    readonly bound: ResultBound | undefined;
  } {
    const found = this.#attached.flatMap(({ ring, plugin }) => {
      const hooks = plugin.handler?.(target);
      return hooks ? [{ ring, hooks }] : [];
    });
    const factories = (isThere: (ring: McpRing) => boolean) =>
      found.flatMap(({ ring, hooks }) => (isThere(ring) ? factoriesOf(hooks) : []));
    const aroundRounds = factories(isAroundRounds);
    const inRounds = factories((ring) => !isAroundRounds(ring) && !isInResults(ring));
    const inResults = factories(isInResults);
    const isHooked = aroundRounds.length + inRounds.length + inResults.length > 0;
    return {
      runs: isHooked ? { target, aroundRounds, inRounds, inResults } : undefined,
      bound: found.find(({ hooks }) => hooks.bound)?.hooks.bound,
    };
  }

  /** Whether a plugin hides handlers. */
  get hiding(): boolean {
    return this.#attached.some(({ plugin }) => 'hides' in plugin);
  }

  /** Returns whether a plugin hides a handler from a caller; one that fails hides it. */
  hides(target: McpHandlerTarget, call: McpCall): boolean {
    return this.#attached.some(({ plugin }) => {
      try {
        return plugin.hides?.(target, call) === true;
      } catch (error) {
        logError(error);
        return true;
      }
    });
  }

  /** Gives the work of plugins `limitMs` to end. Never rejects. */
  async drain(limitMs: number): Promise<void> {
    await Promise.all(this.#attached.map(({ plugin }) => stopped(() => plugin.drain?.(limitMs))));
  }

  /** Closes plugins, the innermost first. Never rejects. */
  async close(): Promise<void> {
    for (const { plugin } of this.#attached.toReversed()) await stopped(() => plugin.close?.());
  }
}

/** A plugin that fails keeps neither the others nor the node from their end. */
async function stopped(stop: () => MaybePromise<void> | undefined): Promise<void> {
  try {
    await stop();
  } catch (error) {
    logError(error);
  }
}

function factoriesOf(hooks: McpHandlerHooks): NonNullable<McpHandlerHooks['run']>[] {
  return hooks.run ? [(run) => hooks.run!(run)] : [];
}
