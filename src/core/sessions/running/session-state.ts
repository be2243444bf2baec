import type { McpSessionInfo, RouteParams } from '../../calls/mcp-call.js';
import type { SubscriptionSize } from './admission.js';
import { canonicalUri } from '../../protocol/uris.js';
import type { McpSessionRecord, McpSessionPatch } from '../store/session-store.js';

type Params = Readonly<Record<string, unknown>>;

/**
 * Maps a method to the change that a successful request makes to the session's record: a rebuilt session behaves the
 * same.
 */
export const STATE_PATCHES: ReadonlyMap<string, (params: Params, state: SessionState) => McpSessionPatch> = new Map([
  ['logging/setLevel', ({ level }: Params): McpSessionPatch => ({ logLevel: String(level) })],
  [
    'resources/subscribe',
    ({ uri }: Params, state: SessionState): McpSessionPatch => {
      const others = state.otherSpellings(String(uri));
      return { subscribe: [String(uri)], ...(others.length > 0 && { unsubscribe: others }) };
    },
  ],
  [
    'resources/unsubscribe',
    ({ uri }: Params, state: SessionState): McpSessionPatch => ({
      unsubscribe: [String(uri), ...state.otherSpellings(String(uri))],
    }),
  ],
]);

/** Holds the part of a session's record that changes, in a live copy. */
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

  /** Returns the other spellings of a URI to which the client is subscribed: a record has the last one, for updates. */
  otherSpellings(uri: string): string[] {
    const form = canonicalUri(uri);
    return [...(this.#subscriptions ?? [])].filter((each) => each !== uri && canonicalUri(each) === form);
  }

  /** The level that `logging/setLevel` has set; without one the client gets all messages. */
  get logLevel(): string | undefined {
    return this.#logLevel;
  }

  /** Counts the changes. */
  get changes(): number {
    return this.#changes;
  }

  /** Settles when the record has the changes, or failed to take them; `undefined` while it has them all. */
  get recording(): Promise<void> | undefined {
    return this.#recording;
  }

  /** @param recorded settles when the record has the change; absent: it has it already */
  note({ logLevel, subscribe = [], unsubscribe = [] }: McpSessionPatch, recorded?: Promise<void>): void {
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

  /** Returns the changes that the record has and this copy lacks; `undefined` if there are none. */
  missed({
    logLevel,
    subscriptions,
  }: Pick<McpSessionRecord, 'logLevel' | 'subscriptions'>): McpSessionPatch | undefined {
    const recorded = new Set(subscriptions);
    const subscribe = subscriptions.filter((uri) => !this.#subscriptions?.has(uri));
    const unsubscribe = [...(this.#subscriptions ?? [])].filter((uri) => !recorded.has(uri));
    const missedLevel = logLevel === this.#logLevel ? undefined : logLevel;
    if (missedLevel === undefined && subscribe.length === 0 && unsubscribe.length === 0) return undefined;
    return { ...(missedLevel !== undefined && { logLevel: missedLevel }), subscribe, unsubscribe };
  }
}

/** Operators see this of a session: what its client declared, its settings and its times. @publicApi */
export interface McpSessionDetails
  extends McpSessionInfo, Pick<McpSessionRecord, 'logLevel' | 'subscriptions' | 'used' | 'createdAt' | 'lastSeenAt'> {}

export interface InitializeParams {
  readonly protocolVersion: string;
  readonly capabilities: Record<string, unknown>;
  readonly clientInfo: { readonly name: string; readonly version: string };
  readonly [key: string]: unknown;
}

export function infoOf(record: McpSessionRecord): SessionInfo {
  return new SessionInfo(record, record.initialize);
}

/** @returns what operators see of a session */
export function detailsOf(record: McpSessionRecord): McpSessionDetails {
  const { logLevel, subscriptions, used, createdAt, lastSeenAt } = record;
  const level = logLevel === undefined ? {} : { logLevel };
  return Object.assign(infoOf(record), { subscriptions, used, createdAt, lastSeenAt }, level);
}

/**
 * Describes a session and its client. The parameters of `initialize` stay text, which is parsed when it is asked for.
 */
export class SessionInfo implements McpSessionInfo {
  readonly id: string;
  readonly principal: string | undefined;
  readonly protocolVersion: string;
  declare readonly routeParams?: RouteParams;
  declare readonly clientInfo: McpSessionInfo['clientInfo'];
  declare readonly clientCapabilities: Record<string, unknown>;
  readonly #initialize: string;

  /** @param initialize the parameters, as JSON */
  constructor({ id, principal, protocolVersion, routeParams }: Identity, initialize: string) {
    this.id = id;
    this.principal = principal;
    this.protocolVersion = protocolVersion;
    if (routeParams) this.routeParams = routeParams;
    this.#initialize = initialize;
    // Own properties: those of a class are lost in copies and in JSON. Shared by all, they take no memory.
    Object.defineProperties(this, SessionInfo.#parsed);
  }

  static readonly #parsed: PropertyDescriptorMap & ThisType<SessionInfo> = {
    clientInfo: {
      enumerable: true,
      get() {
        return this.#offered().clientInfo ?? { name: 'unknown', version: '0' };
      },
    },
    clientCapabilities: {
      enumerable: true,
      get() {
        return this.#offered().capabilities ?? {};
      },
    },
  };

  /** As in {@link ClientIdentity}. @internal */
  get capabilities(): Record<string, unknown> {
    return this.clientCapabilities;
  }

  /** Returns the same session, as its client has introduced it. */
  with(protocolVersion: string, initialize = this.#initialize): SessionInfo {
    if (protocolVersion === this.protocolVersion && initialize === this.#initialize) return this;
    const { id, principal, routeParams } = this;
    return new SessionInfo({ id, principal, protocolVersion, routeParams }, initialize);
  }

  #offered(): Partial<InitializeParams> {
    return JSON.parse(this.#initialize) as Partial<InitializeParams>;
  }
}

type Identity = Pick<McpSessionInfo, 'id' | 'protocolVersion'> & {
  readonly principal?: string | undefined;
  readonly routeParams?: RouteParams | undefined;
};
