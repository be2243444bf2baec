import { Inject, Injectable } from '@nestjs/common';
import { McpMessageBus } from './message-bus.js';
import { nodeMessage, type NodeMessage } from './node-messages.js';
import { LiveSessions } from '../sessions/running/live-sessions.js';
import { SessionRuntime } from '../sessions/session-runtime.js';

/**
 * Receives the messages of other nodes about the sessions that are live here.
 *
 * Each message is a hint that something in the stores has changed. Hints may be lost while the bus is disconnected;
 * every live session is refreshed when it has reconnected.
 */
@Injectable()
export class NodeListener {
  constructor(
    @Inject(McpMessageBus) private readonly bus: McpMessageBus,
    @Inject(LiveSessions) private readonly sessions: LiveSessions,
    @Inject(SessionRuntime) private readonly runtime: Pick<SessionRuntime, 'event'>,
  ) {
    bus.messages$.subscribe((message) => {
      const known = nodeMessage(message);
      if (known) this.#take(known);
    });
    bus.reconnected$.subscribe(() => sessions.refreshAll());
  }

  /** Takes a message. A node of another version may send something unexpected, which must not end this one. */
  #take(message: NodeMessage): void {
    try {
      this.#handle(message);
    } catch (error) {
      this.runtime.event({ type: 'protocol-error', sessionId: message.session, error });
    }
  }

  #handle(message: NodeMessage): void {
    if ('node' in message && message.node === this.bus.nodeId) return;
    if (message.type === 'session-ended') return this.sessions.endedElsewhere(message.session, message.reason);
    const session = this.sessions.peek(message.session)?.session;
    if (!session) return;
    switch (message.type) {
      case 'appended':
        return session.streams.look(message.stream);
      case 'replaced':
        return session.streams.replaced(message.stream, message.reader, message.upTo);
      case 'inbox':
        return session.inbox.look();
      case 'patched':
        return session.follow(message.patch);
    }
  }
}
