import { Subscription } from 'rxjs';
import type { McpEndpointHost, McpEndpointPlugin } from '../core/plugins/mcp-plugin.js';
import type { ToolCatalogue } from './tool-catalogue.js';

const SIGNAL = 'catalogue';

/** Principals, `null` for anonymous callers; `undefined`: all. */
type Principals = Set<string | null> | undefined;

/**
 * # Changes of catalogues, to other nodes and to clients
 *
 *     changed() ──▶ this node drops at once ──end of the turn──▶ signal: the other nodes drop ──▶ clients of the principal
 *
 * The changes of a turn are one signal for each catalogue, and one notification. A signal may be lost: after that, all lists are
 * dropped.
 */
export class CatalogueChanges implements McpEndpointPlugin {
  readonly #watching = new Subscription();
  readonly #pending = new Map<string, Principals>();
  #turn: NodeJS.Immediate | undefined;

  constructor(
    private readonly catalogues: readonly ToolCatalogue[],
    private readonly endpoint: McpEndpointHost,
  ) {
    const { nodes } = endpoint;
    this.#watching.add(nodes.signals$.subscribe((message) => this.#receive(message)));
    this.#watching.add(nodes.missed$.subscribe(() => this.#drop()));
  }

  changed(catalogue: ToolCatalogue, principal?: string | null): void {
    catalogue.drop(principal === undefined ? undefined : new Set([principal]));
    const { name } = catalogue.type;
    this.#pending.set(name, united(this.#pending.has(name) ? this.#pending.get(name) : new Set(), principal));
    this.#turn ??= setImmediate(() => this.#notify());
  }

  close(): void {
    clearImmediate(this.#turn);
    this.#watching.unsubscribe();
  }

  #notify(): void {
    this.#turn = undefined;
    const all = new Set<string | null>();
    const { nodes, owner } = this.endpoint;
    for (const [catalogue, only] of this.#pending) {
      nodes.signal({ type: SIGNAL, owner, catalogue, ...(only && { only: [...only] }) });
      for (const principal of only ?? []) all.add(principal);
    }
    const everyone = [...this.#pending.values()].includes(undefined);
    this.#pending.clear();
    this.endpoint.changed('tool', everyone ? undefined : all);
  }

  /** Takes a signal. Nodes may run another version: what is not understood drops all lists. */
  #receive(message: unknown): void {
    const { type, owner, catalogue, only } = (message ?? {}) as Readonly<Record<string, unknown>>;
    if (type !== SIGNAL || owner !== this.endpoint.owner) return;
    this.#drop(catalogue, Array.isArray(only) ? new Set(only as (string | null)[]) : undefined);
  }

  /** @param name of a catalogue; one that is unknown here, in another version of the app, stands for all */
  #drop(name?: unknown, only?: ReadonlySet<string | null>): void {
    const named = this.catalogues.filter(({ type }) => type.name === name);
    for (const each of named.length > 0 ? named : this.catalogues) each.drop(only);
  }
}

function united(pending: Principals, principal: string | null | undefined): Principals {
  return principal === undefined ? undefined : pending?.add(principal);
}
