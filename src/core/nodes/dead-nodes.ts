import { Inject, Injectable } from '@nestjs/common';
import { randomToken } from '../common/random-token.js';
import { Retry } from '../common/retry.js';
import { type McpLostNode, McpMessageBus } from './message-bus.js';
import { ANSWER_LOST, McpEventStoreError } from '../log/event-store.errors.js';
import { isShared, type McpReaderRef, type McpUnfinishedStream } from '../log/event-store.js';
import { PluginHost } from '../plugins/plugin-host.js';
import { errorResponse, REQUEST_FAILED } from '../protocol/errors.js';
import { LiveSessions } from '../sessions/running/live-sessions.js';
import { SessionRuntime } from '../sessions/session-runtime.js';

const NODE_DIED =
  'The server that handled this request has failed, and the request with it. Whether it had an effect is not known. Repeat it if that does no harm.';

/**
 * # Ends the calls that no handler will answer
 *
 * A dead node never answers its calls, so another node does: it answers each logged call with an error, on the stream
 * of the call, where a client that reconnects to any node finds it. The readers of the dead node stay in the log until
 * newer ones claim their streams. Plugins end in the same way what they have of the dead node.
 *
 * When the storage was away, it may have lost the answers of this node (G12): of its own calls in the log, those that do not run are
 * answered in the same way.
 *
 * All steps can be repeated: an answered call is not open, and a stream that has ended accepts no append. That also
 * fences a node that only seemed dead.
 */
@Injectable()
export class DeadNodes {
  readonly #retry: Retry;

  constructor(
    @Inject(McpMessageBus) bus: Pick<McpMessageBus, 'lost$' | 'reconnected$'>,
    @Inject(SessionRuntime)
    private readonly runtime: Pick<SessionRuntime, 'store' | 'clock' | 'retry' | 'nodeId' | 'nodes' | 'storeFault'>,
    @Inject(LiveSessions) private readonly sessions: LiveSessions,
    @Inject(PluginHost) private readonly plugins: Pick<PluginHost, 'nodeDied'>,
  ) {
    const { retry, clock } = runtime;
    // Retries until the log is available: no other node has claimed the dead node.
    const patience = { ...retry, giveUpAfterMs: Number.POSITIVE_INFINITY };
    this.#retry = new Retry(patience, clock, (error) => error instanceof McpEventStoreError);
    bus.lost$.subscribe({
      next: (lost) => this.#inBackground(this.#endAllOf(lost)),
      complete: () => this.#retry.cancel(),
    });
    bus.reconnected$.subscribe(() => this.#inBackground(this.#endLostCalls()));
  }

  async #endAllOf(lost: McpLostNode): Promise<void> {
    // Each of the two is repeatable, and tried again until it has ended, or this node stops.
    await Promise.all([this.#retry.run(() => this.plugins.nodeDied(lost.node)), this.#endCallsOf(lost.node)]);
    await lost.done();
  }

  async #endCallsOf(node: string): Promise<void> {
    const unfinished = await this.#unfinished(node);
    await Promise.all(unfinished.map((stream) => this.#answer(stream, NODE_DIED)));
  }

  /**
   * Answers the calls of this node that the log has and that do not run here. A call is registered here before the log
   * has it, until its answer is in the log.
   */
  async #endLostCalls(): Promise<void> {
    const unfinished = await this.#unfinished(this.runtime.nodeId);
    const runs = ({ session, stream }: McpUnfinishedStream): boolean =>
      this.sessions.peek(session)?.session.streams.isOfRunningCall(stream) ?? false;
    await Promise.all(unfinished.filter((stream) => !runs(stream)).map((stream) => this.#answer(stream, ANSWER_LOST)));
  }

  async #unfinished(node: string): Promise<McpUnfinishedStream[]> {
    const { store } = this.runtime;
    return isShared(store) ? this.#retry.run(() => store.unfinished(node)) : [];
  }

  #inBackground(work: Promise<void>): void {
    work.catch((error: unknown) => this.runtime.storeFault('', error));
  }

  /** Answers by one append, which ends the stream: when two nodes try, one succeeds. */
  async #answer({ session, stream, requests }: McpUnfinishedStream, text: string): Promise<void> {
    const answers = requests.map((id) => errorResponse(id, REQUEST_FAILED, text));
    const events = answers.map((answer) => JSON.stringify(answer));
    const end = { writer: randomToken(), seq: 1, settles: requests, end: true };
    try {
      const { reader } = await this.#retry.run(() => this.runtime.store.append(session, stream, events, end));
      this.#notify(session, stream, reader);
    } catch (error) {
      // The session has ended, or the node was not dead and has ended the stream itself.
      if (!(error instanceof McpEventStoreError)) this.runtime.storeFault(session, error);
    }
  }

  /** Notifies the reader, which may be on this node. */
  #notify(session: string, stream: string, reader: McpReaderRef | undefined): void {
    if (reader && reader.node !== this.runtime.nodeId) return this.runtime.nodes.appended(session, stream, reader);
    this.sessions.peek(session)?.session.streams.look(stream);
  }
}
