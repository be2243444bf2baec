import { Inject, Injectable } from '@nestjs/common';
import { Observable, Subject } from 'rxjs';
import { toStored } from '../common/formats.js';
import { McpMessageBus } from './message-bus.js';
import { signalIn } from './node-messages.js';
import { isChangedList, type McpChange } from '../protocol/notifications.js';

/** A subscriber gets a change, or `missed` when some changes may have been lost. @internal */
export type ChangeHint = McpChange | 'missed';

/**
 * # The changes of an endpoint, from every node to every node
 *
 * Sessions receive a change through their logs, on any node. Clients without a session have no log; this feed serves
 * them: the bus delivers a change that one node publishes to all nodes, including the publishing one. Nothing is
 * stored: a change is a hint to look again, and `missed` means that some hints may have been lost.
 *
 * Invariant: `listeners` is the number of subscribers of `changes$`, so tests detect a missing unsubscribe.
 *
 * @internal
 */
@Injectable()
export class ChangeFeed {
  /** Emits the changes of all nodes. It is hot, never errors, and completes when the bus is closed. */
  readonly changes$: Observable<ChangeHint>;
  readonly #received$ = new Subject<ChangeHint>();
  #listeners = 0;

  constructor(
    @Inject(McpMessageBus) private readonly bus: Pick<McpMessageBus, 'messages$' | 'reconnected$' | 'broadcast'>,
  ) {
    this.changes$ = new Observable<ChangeHint>((subscriber) => {
      this.#listeners++;
      subscriber.add(() => this.#listeners--);
      subscriber.add(this.#received$.subscribe(subscriber));
    });
    bus.messages$.subscribe({
      next: (message) => this.#receive(message),
      complete: () => this.#received$.complete(),
    });
    bus.reconnected$.subscribe(() => this.#received$.next('missed'));
  }

  /** Counts the subscribers of `changes$` on this node. */
  get listeners(): number {
    return this.#listeners;
  }

  /** Sends a change to every node, this one included, which gets it a moment later. */
  publish(change: McpChange): void {
    const only = 'only' in change && change.only ? { only: [...change.only] } : {};
    this.bus.broadcast(toStored('signals', { type: 'changed', ...change, ...only }));
  }

  #receive(message: unknown): void {
    const change = changeIn(message);
    if (change) this.#received$.next(change);
  }
}

/** Reads a message. Other nodes may run another version: messages of an unknown form are ignored. */
function changeIn(message: unknown): McpChange | undefined {
  const { type, list, uri, only } = (signalIn(message) ?? {}) as Readonly<Record<string, unknown>>;
  if (type !== 'changed') return undefined;
  if (isChangedList(list)) return Array.isArray(only) ? { list, only: new Set(only as (string | null)[]) } : { list };
  return typeof uri === 'string' ? { uri } : undefined;
}
