import { Inject, Injectable } from '@nestjs/common';
import { ignoreElements, map, type Observable } from 'rxjs';
import { toStored } from '../common/formats.js';
import type { InboxOwner, InboxRuntime, OtherNodes, SessionInbox } from '../sessions/other-nodes.js';
import type { McpSessionEndReason } from '../sessions/session-events.js';
import type { McpSessionPatch } from '../sessions/store/session-store.js';
import { isShared, type McpReaderRef } from '../log/event-store.js';
import type { McpChange } from '../protocol/notifications.js';
import { ChangeFeed } from './change-feed.js';
import { Inbox, NO_INBOX } from './inbox.js';
import { McpMessageBus } from './message-bus.js';
import { ALL_NODES, type NodeMessage, signalIn } from './node-messages.js';

/** Speaks to the other nodes over the message bus. */
@Injectable()
export class BusNodes implements OtherNodes {
  readonly nodeId: string;
  readonly left$: Observable<never>;
  /** Signals of all nodes, this one included; completes when this node leaves. */
  readonly signals$: Observable<unknown>;
  /** Emits when signals may have been lost. */
  readonly missed$: Observable<void>;

  constructor(
    @Inject(McpMessageBus) private readonly bus: McpMessageBus,
    @Inject(ChangeFeed) private readonly changes: ChangeFeed,
  ) {
    this.nodeId = bus.nodeId;
    this.left$ = bus.messages$.pipe(ignoreElements());
    this.signals$ = bus.messages$.pipe(map(signalIn));
    this.missed$ = bus.reconnected$;
  }

  /** Makes one without the injector. */
  static over(bus: McpMessageBus): BusNodes {
    return new BusNodes(bus, new ChangeFeed(bus));
  }

  get listeners(): number {
    return this.changes.listeners;
  }

  changed(change: McpChange): void {
    this.changes.publish(change);
  }

  appended(session: string, stream: string, { node }: McpReaderRef): void {
    this.#send(node, { type: 'appended', session, stream });
  }

  replaced(session: string, stream: string, { node, reader }: McpReaderRef, upTo?: number): void {
    this.#send(node, { type: 'replaced', session, stream, reader, ...(upTo !== undefined && { upTo }) });
  }

  ended(session: string, reason: McpSessionEndReason): void {
    this.#send(ALL_NODES, { type: 'session-ended', session, node: this.nodeId, reason });
  }

  async patched(session: string, patch: McpSessionPatch): Promise<void> {
    this.#send(ALL_NODES, { type: 'patched', session, node: this.nodeId, patch });
    await this.bus.flushed?.();
  }

  inboxOf(session: InboxOwner, runtime: InboxRuntime): SessionInbox {
    if (!isShared(runtime.store)) return NO_INBOX;
    const announce = (to: string): void =>
      this.#send(to, { type: 'inbox', session: session.sessionId, node: this.nodeId });
    return new Inbox(session, runtime, announce);
  }

  signal(message: object): void {
    this.bus.broadcast(toStored('signals', message));
  }

  /** Checks the bus, for health checks. @throws (rejects) while this node does not receive messages of the others */
  async ping(): Promise<void> {
    await this.bus.ping?.();
  }

  /** Returns the ids of the nodes that are alive, this one included; `undefined` if this one is the only one. */
  async alive(): Promise<string[] | undefined> {
    return this.bus.nodes?.();
  }

  /** Closes the bus: this node is gone for the others. */
  leave(): Promise<void> {
    return this.bus.close();
  }

  #send(to: string, message: NodeMessage): void {
    if (to === ALL_NODES) this.bus.broadcast(message);
    else this.bus.send(to, message);
  }
}
