import type { McpCall, McpSessionInfo } from '../../context/mcp-call.js';
import type { SubscriptionSize } from './admission.js';
import type { InitializeParams, McpSessionRecord, SessionPatch } from '../store/session-store.js';

/** The change that a successful request makes to the session's record, so that a rebuilt session behaves the same. */
export function statePatch({ message: { method, params } }: McpCall): SessionPatch | undefined {
  switch (method) {
    case 'logging/setLevel':
      return { logLevel: String(params?.['level']) };
    case 'resources/subscribe':
      return { subscribe: [String(params?.['uri'])] };
    case 'resources/unsubscribe':
      return { unsubscribe: [String(params?.['uri'])] };
    default:
      return undefined;
  }
}

/** The part of a session's record that a live copy holds. */
export class SessionState {
  #subscriptions: Set<string> | undefined;
  #subscriptionBytes = 0;
  #logLevel: string | undefined;
  #changes = 0;
  #recording: Promise<void> | undefined;

  /** The resources that the client is subscribed to. */
  get subscriptions(): SubscriptionSize {
    return { count: this.#subscriptions?.size ?? 0, bytes: this.#subscriptionBytes };
  }

  /** Set by `logging/setLevel`; `undefined`: the client gets all messages. */
  get logLevel(): string | undefined {
    return this.#logLevel;
  }

  /** Grows with each change. */
  get changes(): number {
    return this.#changes;
  }

  /** Settles when the record has the changes, or failed to take them; `undefined`: it has them all. */
  get recording(): Promise<void> | undefined {
    return this.#recording;
  }

  /** @param recorded settles when the record has the change; absent: it has it already */
  note({ logLevel, subscribe = [], unsubscribe = [] }: SessionPatch, recorded?: Promise<void>): void {
    this.#changes++;
    if (recorded) this.#await(recorded);
    if (logLevel !== undefined) this.#logLevel = logLevel;
    for (const uri of unsubscribe) {
      if (this.#subscriptions?.delete(uri)) this.#subscriptionBytes -= Buffer.byteLength(uri);
    }
    for (const uri of subscribe) {
      if (this.#subscriptions?.has(uri)) continue;
      (this.#subscriptions ??= new Set()).add(uri);
      this.#subscriptionBytes += Buffer.byteLength(uri);
    }
  }

  #await(recorded: Promise<void>): void {
    const recording = Promise.allSettled([this.#recording, recorded]).then(() => {
      if (this.#recording === recording) this.#recording = undefined;
    });
    this.#recording = recording;
  }

  /** The changes that the record has and this copy lacks; `undefined`: none. */
  missed({ logLevel, subscriptions }: Pick<McpSessionRecord, 'logLevel' | 'subscriptions'>): SessionPatch | undefined {
    const recorded = new Set(subscriptions);
    const subscribe = subscriptions.filter((uri) => !this.#subscriptions?.has(uri));
    const unsubscribe = [...(this.#subscriptions ?? [])].filter((uri) => !recorded.has(uri));
    const missedLevel = logLevel === this.#logLevel ? undefined : logLevel;
    if (missedLevel === undefined && subscribe.length === 0 && unsubscribe.length === 0) return undefined;
    return { ...(missedLevel !== undefined && { logLevel: missedLevel }), subscribe, unsubscribe };
  }
}

export function infoOf({ initialize, ...record }: McpSessionRecord): McpSessionInfo {
  return introduced(record, initialize);
}

/** The client of a session as far as it is known: nothing at first, then the parameters of its `initialize`. */
export function introduced(
  { id, principal, protocolVersion, routeParams }: Unintroduced,
  params: Partial<InitializeParams> = {},
): McpSessionInfo {
  const { clientInfo = { name: 'unknown', version: '0' }, capabilities: clientCapabilities = {} } = params;
  const info = { id, principal, protocolVersion, clientInfo, clientCapabilities };
  return routeParams ? { ...info, routeParams } : info;
}

type Unintroduced = Pick<McpSessionInfo, 'id' | 'protocolVersion' | 'routeParams'> & { principal?: string | undefined };
