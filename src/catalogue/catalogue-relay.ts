import { Inject, Injectable, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { Subscription } from 'rxjs';
import { ENDPOINT_NAME, type EndpointName, stateOwnerOf } from '../core/calls/endpoint-name.js';
import { logger } from '../core/calls/operator-log.js';
import { McpSessionService } from '../core/sessions/mcp-session.service.js';
import { OTHER_NODES, type OtherNodes } from '../core/sessions/other-nodes.js';
import { type CatalogueChange, ToolCatalogues } from './tool-catalogues.js';

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
@Injectable()
export class CatalogueRelay implements OnModuleInit, OnModuleDestroy {
  readonly #watching = new Subscription();
  readonly #pending = new Map<string, Principals>();
  #turn: NodeJS.Immediate | undefined;
  readonly #owner: string;

  constructor(
    @Inject(ToolCatalogues) private readonly catalogues: ToolCatalogues,
    @Inject(OTHER_NODES) private readonly nodes: OtherNodes,
    @Inject(McpSessionService) private readonly sessions: McpSessionService,
    @Inject(ENDPOINT_NAME) endpoint: EndpointName,
  ) {
    this.#owner = stateOwnerOf(endpoint);
  }

  onModuleInit(): void {
    this.#watching.add(this.catalogues.changes$.subscribe((change) => this.#changed(change)));
    this.#watching.add(this.nodes.signals$.subscribe((message) => this.#receive(message)));
    this.#watching.add(this.nodes.missed$.subscribe(() => this.catalogues.drop()));
  }

  onModuleDestroy(): void {
    clearImmediate(this.#turn);
    this.#watching.unsubscribe();
  }

  #changed({ catalogue, principal }: CatalogueChange): void {
    this.#pending.set(
      catalogue,
      united(this.#pending.has(catalogue) ? this.#pending.get(catalogue) : new Set(), principal),
    );
    this.#turn ??= setImmediate(() => this.#notify());
  }

  #notify(): void {
    this.#turn = undefined;
    const all = new Set<string | null>();
    for (const [catalogue, only] of this.#pending) {
      this.nodes.signal({ type: SIGNAL, owner: this.#owner, catalogue, ...(only && { only: [...only] }) });
      for (const principal of only ?? []) all.add(principal);
    }
    const everyone = [...this.#pending.values()].includes(undefined);
    this.#pending.clear();
    const notification = { method: 'notifications/tools/list_changed' };
    this.sessions
      .announce(notification, everyone ? undefined : all)
      .catch((error: unknown) => logger.error(String(error)));
  }

  /** Takes a signal. Nodes may run another version: what is not understood drops all lists. */
  #receive(message: unknown): void {
    const { type, owner, catalogue, only } = (message ?? {}) as Readonly<Record<string, unknown>>;
    if (type !== SIGNAL || owner !== this.#owner) return;
    const name = typeof catalogue === 'string' ? catalogue : undefined;
    this.catalogues.drop(name, Array.isArray(only) ? new Set(only as (string | null)[]) : undefined);
  }
}

function united(pending: Principals, principal: string | null | undefined): Principals {
  return principal === undefined ? undefined : pending?.add(principal);
}
