import type { Subscription } from 'rxjs';
import { Retry } from '../base/retry.js';
import type { LostNode, McpMessageBus } from '../bus/message-bus.js';
import { EventStoreError } from '../stream/event-store.errors.js';
import type { OpenRequest } from '../stream/event-store.js';
import { McpStream, type StreamObserver } from '../stream/mcp-stream.js';
import { errorResponse } from '../wire/errors.js';
import type { ClusterPeers } from './cluster-messages.js';
import type { LiveSessions } from './live-sessions.js';
import { sessionMessages } from './session.messages.js';
import type { SessionEnvironment } from './session.options.js';

/** JSON-RPC code of calls that end before their handler does. */
const REQUEST_FAILED = -32000;

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

  async #bury({ node, done }: LostNode): Promise<void> {
    const { store } = this.environment;
    // What it would have swept is for the others to sweep.
    this.sessions.watch();
    const open = await this.#retry.run(() => store.openRequests({ node }));
    await Promise.all([...byStream(open)].map((requests) => this.#answer(requests)));
    const promoted = await this.#retry.run(() => store.detachNode(node));
    for (const { session, stream, ...reader } of promoted) {
      this.peers.turned(session, stream, reader, { is: 'promoted' });
    }
    await done();
  }

  /** @param requests all open ones of a stream */
  async #answer(requests: readonly OpenRequest[]): Promise<void> {
    const [{ session, stream: id }] = requests as [OpenRequest];
    const stream = new McpStream(id, session, this.environment, UNOBSERVED);
    const answers = requests.map(({ id: request }, position) => {
      const error = errorResponse(request, REQUEST_FAILED, sessionMessages.nodeDied());
      return stream.write({ data: JSON.stringify(error), settles: request, end: position === requests.length - 1 });
    });
    try {
      await Promise.all(answers);
    } catch (error) {
      // The session has ended, or the node was not dead and has ended the stream itself.
      if (!(error instanceof EventStoreError)) this.#fault(session, error);
    }
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

const ignore = (): void => {};
const UNOBSERVED: StreamObserver = {
  attached: ignore,
  detached: ignore,
  evicted: ignore,
  idle: ignore,
  failed: ignore,
  fault: ignore,
};
