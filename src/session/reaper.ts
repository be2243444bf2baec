import type { Subscription } from 'rxjs';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import type { LostNode, McpMessageBus } from '../bus/message-bus.js';
import { EventLogFullError, EventStoreError } from '../stream/event-store.errors.js';
import type { AppendOptions, OpenRequest, ReaderRef } from '../stream/event-store.js';
import { errorResponse, REQUEST_FAILED } from '../wire/errors.js';
import type { ClusterPeers } from './cluster-messages.js';
import type { LiveSessions } from './live-sessions.js';
import { sessionMessages } from './session.messages.js';
import type { SessionEnvironment } from './session.options.js';

/**
 * # What a dead node leaves behind
 *
 * Its calls will never be answered, and its readers will never leave. Another node does both for it: each call that was logged
 * is answered with an error, on its own stream, so that a client that comes back to any node finds it; then its readers are
 * taken away, so that messages go to those that live.
 *
 * All of it can be done twice: an answered call is open no longer, and a stream that has ended takes nothing more. That also
 * fences a node that was only thought dead.
 */
export class Reaper {
  readonly #lost: Subscription;
  readonly #retry: Retry;

  constructor(
    bus: Pick<McpMessageBus, 'lost$'>,
    private readonly environment: SessionEnvironment,
    private readonly sessions: LiveSessions,
    private readonly peers: ClusterPeers,
  ) {
    const { retry, clock } = environment;
    // Tried until the log is back: nobody else will.
    const patience = { ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY };
    this.#retry = new Retry(patience, clock, (error) => error instanceof EventStoreError);
    this.#lost = bus.lost$.subscribe((lost) => {
      this.#bury(lost).catch((error: unknown) => this.#fault('', error));
    });
  }

  close(): void {
    this.#lost.unsubscribe();
    this.#retry.cancel();
  }

  async #bury(lost: LostNode): Promise<void> {
    const { store } = this.environment;
    const { node } = lost;
    // What it would have swept is for the others to sweep.
    this.sessions.watch();
    const open = await this.#retry.run(() => store.openRequests({ node }));
    await Promise.all([...byStream(open)].map((requests) => this.#answer(requests)));
    await this.#retry.run(() => this.peers.readersGone(node, store));
    await lost.done();
  }

  /**
   * In one step, and the last one of its stream: of nodes that bury the same one, one does it.
   *
   * @param requests all open ones of a stream
   */
  async #answer(requests: readonly OpenRequest[]): Promise<void> {
    const [{ session, stream }] = requests as [OpenRequest];
    const { store } = this.environment;
    const answers = requests.map(({ id }) => errorResponse(id, REQUEST_FAILED, sessionMessages.nodeDied()));
    const events = answers.map((answer) => JSON.stringify(answer));
    const settles = requests.map(({ id }, answer) => ({ id, answer }));
    const end: AppendOptions = { writer: randomToken(), seq: 1, end: true };
    try {
      const { reader } = await this.#retry
        .run(() => store.append(session, stream, events, { ...end, settles }))
        .catch((error: unknown) => {
          if (!(error instanceof EventLogFullError)) throw error;
          // No room for an error: that nothing follows can always be said.
          return this.#retry.run(() => store.append(session, stream, [], end));
        });
      this.#tell(session, stream, reader);
    } catch (error) {
      // The session has ended, or the node was not dead and has ended the stream itself.
      if (!(error instanceof EventStoreError)) this.#fault(session, error);
    }
  }

  /** Whoever reads the stream may do so here. */
  #tell(session: string, stream: string, reader: ReaderRef | undefined): void {
    if (reader && reader.node !== this.environment.nodeId) return this.peers.appended(session, stream, reader);
    this.sessions.peek(session)?.session.streams.poke(stream);
  }

  #fault(sessionId: string, error: unknown): void {
    this.environment.event({ type: 'store-fault', sessionId, streamId: '', fatal: false, error });
  }
}

function byStream(open: readonly OpenRequest[]): Iterable<OpenRequest[]> {
  const streams = new Map<string, OpenRequest[]>();
  for (const request of open) {
    const key = JSON.stringify([request.session, request.stream]);
    const requests = streams.get(key);
    if (requests) requests.push(request);
    else streams.set(key, [request]);
  }
  return streams.values();
}
