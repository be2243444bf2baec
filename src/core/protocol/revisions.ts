import type { JsonRpcRequest } from './json-rpc.js';

/** The protocol revisions with sessions, newest first. @publicApi */
export const LEGACY_REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26'] as const;

/** The protocol revisions without sessions, newest first. @publicApi */
export const MODERN_REVISIONS = ['2026-07-28'] as const;

/** A protocol revision with sessions. @internal */
export type LegacyRevision = (typeof LEGACY_REVISIONS)[number];

/** A protocol revision without sessions. @internal */
export type ModernRevision = (typeof MODERN_REVISIONS)[number];

/** The revision that answers an `initialize` for one that we do not serve. @internal */
export const LATEST_LEGACY_REVISION: LegacyRevision = LEGACY_REVISIONS[0];

/** Tells whether the value names a revision with sessions that we serve. @internal */
export function isLegacyRevision(value: unknown): value is LegacyRevision {
  return (LEGACY_REVISIONS as readonly unknown[]).includes(value);
}

/** Tells whether the value names a revision without sessions that we serve. @internal */
export function isModernRevision(value: unknown): value is ModernRevision {
  return (MODERN_REVISIONS as readonly unknown[]).includes(value);
}

/**
 * Returns an `initialize` that asks for the revision of its answer: the requested one if it has sessions, else {@link
 * LATEST_LEGACY_REVISION} (2025-11-25, Lifecycle, "Version Negotiation"; S1). What serves it need not negotiate: an SDK
 * server would agree to revisions that are older than this transport.
 *
 * @internal
 */
export function negotiated(initialize: JsonRpcRequest): JsonRpcRequest {
  const { params = {} } = initialize;
  const { protocolVersion: requested } = params;
  if (isLegacyRevision(requested)) return initialize;
  return { ...initialize, params: { ...params, protocolVersion: LATEST_LEGACY_REVISION } };
}

/**
 * Tells whether a POST may carry an array of messages: batches came with 2025-03-26 and left with the next (E9).
 *
 * @param revision the negotiated one
 * @internal
 */
export function allowsBatches(revision: string): boolean {
  return revision === '2025-03-26';
}

/**
 * Tells whether responses with event ids begin with a priming event, and the server may close them early (G9, G10).
 *
 * @param revision the negotiated one, of {@link LEGACY_REVISIONS}; modern responses carry no event ids
 * @internal
 */
export function hasPrimingEvents(revision: string): boolean {
  // Revisions are ISO dates: they sort as texts.
  return revision >= '2025-11-25';
}
