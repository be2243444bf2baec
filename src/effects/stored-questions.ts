import type { McpClock } from '../core/common/clock.js';
import type { McpCall } from '../core/calls/mcp-call.js';
import type { QuestionRecords } from './confirmed.js';
import { hashOf } from '../core/questions/state/stored-states.js';
import type { ClaimStore } from './claim-store.js';

/** At most so many questions of one caller to one tool are open, and so many answers are remembered as used. */
const MAX_QUESTIONS = 10_000;

export interface StoredQuestionsOptions {
  readonly nodeId: string;
  /** Whether the other nodes see what this one stores. */
  readonly isShared: boolean;
  /** The clocks of two nodes differ by at most so many milliseconds. */
  readonly clockToleranceMs: number;
  /** A sealed state is valid for so many milliseconds by the clock of the node that sealed it. */
  readonly requestStateTtlMs: number;
}

/**
 * # Questions of tools with `confirm`
 *
 *     open ──answer──▶ closed
 *       └──ttlMs──▶ (nothing)
 *
 * Where the nodes share a store, the time of a question is that of the store. Elsewhere, and for a question whose answer comes to
 * the process that asked, it is that of the node.
 */
export class StoredQuestions {
  constructor(
    private readonly store: ClaimStore,
    private readonly clock: McpClock,
    private readonly options: StoredQuestionsOptions,
  ) {}

  /** Returns the questions of a call. @param owner the key of its caller and its tool */
  of(owner: string, call: Pick<McpCall, 'asksAtOnce'>): QuestionRecords {
    const { nodeId, isShared, clockToleranceMs, requestStateTtlMs } = this.options;
    const place = (kind: 'q' | 'c', text: string) => {
      const quota = { owner: `${owner}.${kind}`, max: MAX_QUESTIONS };
      return { key: `${quota.owner}:${kind}.${hashOf(text)}`, quota };
    };
    return {
      open: async (question, ttlMs) => {
        if (call.asksAtOnce || !isShared) return { until: this.clock.now() + ttlMs, node: nodeId };
        const { key, quota } = place('q', question);
        return (await this.store.add(key, true, ttlMs, quota)) === 'full' ? 'full' : {};
      },
      close: async (question, { until, node }) => {
        if (until === undefined) return this.store.delete(place('q', question).key);
        return this.clock.now() < until + (node === nodeId ? 0 : clockToleranceMs);
      },
      use: (state) => {
        const { key, quota } = place('c', state);
        // A node that opens a state may be ahead of the node that sealed it, and another one behind.
        return this.store.add(key, true, requestStateTtlMs + 2 * clockToleranceMs, quota);
      },
    };
  }
}
