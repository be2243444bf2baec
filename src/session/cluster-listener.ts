import type { Subscription } from 'rxjs';
import type { McpMessageBus } from '../bus/message-bus.js';
import { clusterMessage, type ClusterMessage } from './cluster-messages.js';
import type { LiveSessions } from './live-sessions.js';

/**
 * Hears what other nodes say of the sessions that are live here.
 *
 * Each message is a hint: what it tells of is in the stores. Hints may be lost while the bus is away; then everything that is
 * live here is looked after once it is back.
 */
export class ClusterListener {
  readonly #heard: Subscription;

  constructor(
    private readonly bus: McpMessageBus,
    private readonly sessions: LiveSessions,
    private readonly report: (sessionId: string, error: unknown) => void,
  ) {
    this.#heard = bus.messages$.subscribe((message) => {
      const known = clusterMessage(message);
      if (known) this.#take(known);
    });
    this.#heard.add(bus.reconnected$.subscribe(() => sessions.refreshAll()));
  }

  close(): void {
    this.#heard.unsubscribe();
  }

  /** A node of another version may mean something else by it; that must not end this one. */
  #take(message: ClusterMessage): void {
    try {
      this.#hear(message);
    } catch (error) {
      this.report(message.session, error);
    }
  }

  #hear(message: ClusterMessage): void {
    if ('node' in message && message.node === this.bus.nodeId) return;
    if (message.type === 'session-began') {
      this.sessions.watch();
      // Of a node that stops: maybe it has left nothing.
      return message.session === '' ? this.sessions.relax() : undefined;
    }
    if (message.type === 'session-ended') return this.sessions.endedElsewhere(message.session, message.reason);
    const session = this.sessions.peek(message.session)?.session;
    if (!session) return;
    switch (message.type) {
      case 'appended':
        return session.streams.poke(message.stream);
      case 'replaced':
        return session.streams.replaced(message.stream, message.reader, message.upTo);
      case 'inbox':
        return session.inbox.look();
      case 'patched':
        return session.follow(message.patch);
    }
  }
}
