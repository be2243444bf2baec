/** `legacy`: the 2025 revisions, with sessions. `modern`: 2026-07-28, without. @publicApi */
export type McpEra = 'legacy' | 'modern';

/** What this package has to know of a method, besides what serves it. @internal */
export interface MethodFacts {
  /** The era that has it; absent: both, or it is sent by servers. */
  readonly era?: McpEra;
  /** What its handlers are. */
  readonly kind?: 'tool' | 'prompt' | 'resource';
  /** Its result may be `input_required` (2026-07-28, MRTR). */
  readonly asks?: true;
  /** A second run has no further effect: it reads, or sets a value. */
  readonly repeatable?: true;
  /** It gives a caller nothing but what it may know, or repeats what another call has given: the audit records only refusals and failures. */
  readonly quiet?: true;
  /** It changes the session of its client. */
  readonly patchesSession?: true;
  /** Where its parameters have a URI. */
  readonly uri?: 'params' | 'ref';
  /** The member of `params` that `Mcp-Name` mirrors (M4); for tasks as in SEP-2663. */
  readonly mirrored?: 'name' | 'uri' | 'taskId';
}

/**
 * Every request method of every revision, in either direction, and of the official extensions: one row each.
 *
 * @internal
 */
export const METHODS: ReadonlyMap<string, MethodFacts> = new Map<string, MethodFacts>([
  ['initialize', { era: 'legacy', repeatable: true, quiet: true }],
  ['ping', { era: 'legacy', repeatable: true, quiet: true }],
  ['server/discover', { era: 'modern', repeatable: true, quiet: true }],
  ['subscriptions/listen', { era: 'modern', quiet: true }],
  ['tools/list', { repeatable: true, quiet: true }],
  ['tools/call', { kind: 'tool', asks: true, mirrored: 'name' }],
  ['resources/list', { repeatable: true, quiet: true }],
  ['resources/templates/list', { repeatable: true, quiet: true }],
  ['resources/read', { kind: 'resource', asks: true, repeatable: true, uri: 'params', mirrored: 'uri' }],
  ['resources/subscribe', { era: 'legacy', repeatable: true, quiet: true, patchesSession: true, uri: 'params' }],
  ['resources/unsubscribe', { era: 'legacy', repeatable: true, quiet: true, patchesSession: true, uri: 'params' }],
  ['prompts/list', { repeatable: true, quiet: true }],
  ['prompts/get', { kind: 'prompt', asks: true, repeatable: true, mirrored: 'name' }],
  ['completion/complete', { repeatable: true, quiet: true, uri: 'ref' }],
  ['logging/setLevel', { era: 'legacy', repeatable: true, quiet: true, patchesSession: true }],
  ['sampling/createMessage', {}],
  ['elicitation/create', {}],
  ['roots/list', {}],
  ['tasks/get', { repeatable: true, quiet: true, mirrored: 'taskId' }],
  ['tasks/list', { repeatable: true }],
  ['tasks/result', { repeatable: true }],
  ['tasks/update', { mirrored: 'taskId' }],
  ['tasks/cancel', { mirrored: 'taskId' }],
  ['skills/list', {}],
  ['skills/get', {}],
  ['resources/directory/read', {}],
]);
