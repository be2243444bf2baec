import { fromStored } from '../common/formats.js';
import type { McpAppendedMessage } from '../log/event-store.js';
import type { McpSessionEndReason } from '../sessions/session-events.js';
import type { McpSessionPatch } from '../sessions/store/session-store.js';

/** A message to this addressee goes to all nodes. */
export const ALL_NODES = '*';

/**
 * The messages between nodes about sessions. They are hints only: a node that misses one finds the same in the stores later.
 * Their format is that of the session: no node of another format has it live.
 *
 * - `session-ended`: its record was removed, and the reason
 * - `appended`: there is more to read on a stream
 * - `replaced`: a reader is not the newest of its stream any more; with `upTo` its response is to end now
 * - `inbox`: the client sent a message to another node than the one that waits for it, or a message for all copies
 * - `patched`: the client changed the record of a session, and other live copies follow
 */
export type NodeMessage =
  | {
      readonly type: 'session-ended';
      readonly session: string;
      readonly node: string;
      readonly reason?: McpSessionEndReason;
    }
  | Readonly<McpAppendedMessage>
  | {
      readonly type: 'replaced';
      readonly session: string;
      readonly stream: string;
      readonly reader: string;
      readonly upTo?: number;
    }
  | { readonly type: 'inbox'; readonly session: string; readonly node: string }
  | { readonly type: 'patched'; readonly session: string; readonly node: string; readonly patch: McpSessionPatch };

const TYPES: readonly unknown[] = ['session-ended', 'appended', 'replaced', 'inbox', 'patched'];

/** Reads a message. The bus carries other messages too, and other nodes may run another version: those are ignored. */
export function nodeMessage(message: unknown): NodeMessage | undefined {
  const { type, session } = (message ?? {}) as { type?: unknown; session?: unknown };
  return TYPES.includes(type) && typeof session === 'string' ? (message as NodeMessage) : undefined;
}

/** Reads a signal, which is about no session. Those of a format that this version does not read are ignored, as if they were lost. */
export function signalIn(message: unknown): unknown {
  try {
    return fromStored('signals', message);
  } catch {
    return undefined;
  }
}
