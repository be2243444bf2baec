import type { Clock } from '../common/clock.js';
import { deferred, within } from '../common/promises.js';
import type { McpEventStore } from '../stream/event-store.js';
import type { ClusterPeers } from './cluster-messages.js';
import type { SessionEndReason } from './session-events.js';

/** What other nodes may take to answer the calls that they run: they flush for a second at most. */
const ANSWER_MS = 1_500;

/**
 * # What other nodes still have to say of a session that has ended
 *
 * Its calls are answered with an error where they run, and the answers go by the log. So whoever drops the log waits for the
 * nodes that run calls, for a while: a node may be dead.
 */
export class LastAnswers {
  readonly #awaited = new Map<string, Answers>();

  constructor(
    private readonly environment: { readonly store: McpEventStore; readonly nodeId: string; readonly clock: Clock },
    private readonly peers: Pick<ClusterPeers, 'ended'>,
  ) {}

  /** Tells all nodes that a session has ended. Before, it asks the log which of them run calls. */
  askFor(session: string, reason: SessionEndReason): void {
    const { store, nodeId } = this.environment;
    if (store.scope === 'shared') {
      const answers = new Answers();
      this.#awaited.set(session, answers);
      store.openRequests({ session }).then(
        (open) => answers.expect(open.map(({ node }) => node).filter((node) => node !== nodeId)),
        // A log that does not answer takes no answers either.
        () => answers.expect([]),
      );
    }
    this.peers.ended(session, reason);
  }

  /** A node has answered its calls of a session. */
  given(session: string, node: string): void {
    this.#awaited.get(session)?.given(node);
  }

  /** Settles when all is said, or would have been. Never rejects. */
  async complete(session: string): Promise<void> {
    const answers = this.#awaited.get(session);
    if (!answers) return;
    await within(answers.complete.promise, ANSWER_MS, this.environment.clock);
    this.#awaited.delete(session);
  }
}

/** Who is to answer, and who has: in whichever order that becomes known. */
class Answers {
  readonly complete = deferred();
  readonly #given = new Set<string>();
  #expected: readonly string[] | undefined;

  expect(nodes: readonly string[]): void {
    this.#expected = nodes;
    this.#look();
  }

  given(node: string): void {
    this.#given.add(node);
    this.#look();
  }

  #look(): void {
    if (this.#expected?.every((node) => this.#given.has(node))) this.complete.resolve();
  }
}
