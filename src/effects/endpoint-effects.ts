import { MCP_OPTIONS } from '../core/common/options.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { logger } from '../core/calls/operator-log.js';
import { McpHandlerDefinitionError } from '../core/handlers/handlers.errors.js';
import { McpStateStore } from '../core/questions/state/state-store.js';
import { hashOf } from '../core/questions/state/stored-states.js';
import type { McpEndpointHost, McpRun } from '../core/plugins/mcp-plugin.js';
import { McpSessionStore } from '../core/sessions/store/session-store.js';
import { ClaimStore } from './claim-store.js';
import { StoredPages } from './confirm-pages.js';

const REMEDY = 'Give the endpoint a "stateStore" with add() that all nodes share, such as that of redisBackend().';

/** The options of an endpoint that effects read. */
interface EffectsOptions {
  readonly requestStateTtlMs: number;
  readonly clockToleranceMs: number;
  readonly stateStore?: unknown;
  readonly backend?: unknown;
}

/**
 * # What the tools of an endpoint with `idempotency` or `confirm` remember
 *
 * It is in the state store, under keys of the form `once.<endpoint>:<caller>.<tool>:<id>`. The caller is the principal, as a hash; of
 * anonymous callers their session; those without a session are one, and their keys count for their addresses.
 */
export class EndpointEffects {
  readonly options: EffectsOptions;
  readonly store: ClaimStore;
  readonly pages: StoredPages;
  /** Separates endpoints that share a store: the same on all nodes, and without colons. */
  readonly owner: string;
  /** Why other nodes do not see what this one remembers; `undefined`: they do. */
  readonly #whyNotShared: string | undefined;
  readonly #sharesSessions: boolean;
  /** The tools that are there at start; later `undefined`, since tools of catalogues come without end. */
  #names: Set<string> | undefined = new Set();
  #advised = false;

  constructor(host: McpEndpointHost) {
    const store = host.get<McpStateStore>(McpStateStore);
    this.options = host.get<EffectsOptions>(MCP_OPTIONS);
    this.store = new ClaimStore(store, host.storeFault);
    this.owner = `once.${host.owner}`;
    this.pages = new StoredPages(this.store, host.clock, host.owner);
    this.#sharesSessions = host.get<McpSessionStore>(McpSessionStore).scope === 'shared';
    const { stateStore, backend } = this.options;
    const hasOwnStore = stateStore === undefined && backend === undefined;
    if (!this.store.isAtomic)
      this.#whyNotShared = 'the "stateStore" has no method add(), which sets a value for one caller of all nodes';
    else if (hasOwnStore) this.#whyNotShared = 'the state store is in the memory of this process';
  }

  /** Whether other nodes see what this one remembers. */
  get isShared(): boolean {
    return this.#whyNotShared === undefined;
  }

  /**
   * Takes a tool with effects.
   *
   * @throws McpHandlerDefinitionError if the endpoint shares its sessions, and its nodes would not see the calls of each other
   */
  take({ key, origin }: McpHandlerTarget): void {
    const why = this.#whyNotShared;
    if (this.#sharesSessions && why !== undefined) {
      const reason = `it has "idempotency" or "confirm", and the nodes that share the sessions of its endpoint would not see its calls on each other: ${why}. ${REMEDY}`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    if (this.#names) this.#names.add(key);
    else this.#advise([key]);
  }

  /** Logs what the tools that are there at start promise. */
  started(): void {
    const names = [...(this.#names ?? [])];
    this.#names = undefined;
    if (names.length > 0) this.#advise(names);
  }

  /** Logs once that what the tools promise holds within this process alone, if it does. */
  #advise(names: readonly string[]): void {
    if (this.#advised || this.store.isAtomic) return;
    this.#advised = true;
    logger.warn(
      `The tools with "idempotency" or "confirm" (${names.join(', ')}) keep their promises only within this process, because ${this.#whyNotShared}. That is enough if there is one process. ${REMEDY}`,
    );
  }

  /** Returns the owner of what is remembered about the calls of one caller to one tool. */
  ownerOf({ call: { principal, session }, target }: McpRun): string {
    const anonymous = session ? `s-${hashFor(session, ({ id }) => id)}` : '-';
    return `${this.owner}:${principal === undefined ? anonymous : hashOf(principal)}.${toolOf(target)}`;
  }
}

/** Names a tool in keys. A tool of a catalogue is another one than that of another catalogue which has its name. */
export function toolOf(target: McpHandlerTarget): string {
  return hashFor(target, ({ source, key }) => (source === undefined ? key : JSON.stringify([source, key])));
}

const hashes = new WeakMap<object, string>();

/** Returns the hash of a text that is of a tool or a session: made once. */
function hashFor<T extends object>(owner: T, textOf: (owner: T) => string): string {
  let hash = hashes.get(owner);
  if (hash === undefined) hashes.set(owner, (hash = hashOf(textOf(owner))));
  return hash;
}
