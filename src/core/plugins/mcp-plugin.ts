import type { InjectionToken } from '@nestjs/common';
import type { ModulesContainer } from '@nestjs/core';
import type { Observable } from 'rxjs';
import type { MaybePromise } from '../common/promises.js';
import type { McpClock } from '../common/clock.js';
import type { DivertedClient, McpCall, OutboundMessage, ResultBound } from '../calls/mcp-call.js';
import type { AskedQuestion } from '../calls/call-observer.js';
import type { McpEntering } from '../calls/mcp-context.js';
import type { McpCallEnd, McpRefusal, McpSessionEnd } from '../calls/mcp-instrumentation.js';
import type { McpQuestion } from '../calls/mcp-questions.js';
import type { McpHandlerTarget } from '../calls/mcp-target.js';
import type { McpEra } from '../protocol/era.js';
import type { ExtensionSettings } from '../protocol/extensions.js';
import type { FeatureHandler, FeatureKind } from './feature-kind.js';
import type { HandlerSource, KeptHandler, ListedKind } from './handler-source.js';
import type { ListenTopics } from './listen-topics.js';
import type { Offer } from './offer.js';
import type { McpRing } from './rings.js';
import type { ServedMethods } from './served-method.js';

export type { ListedKind } from './handler-source.js';

/**
 * # What acts on calls
 *
 * A plugin stands in a ring around the handlers of endpoints. A provider that extends this class is found in any module of the app; it
 * must be a singleton. See docs/plugins.md, and for the reasons docs/decisions.md.
 *
 * @experimental
 */
export abstract class McpPlugin {
  /** Where it stands among the others: of two plugins in one ring, that which the app provides first is outside. */
  abstract readonly ring: McpRing;
  /** The options `name` of its endpoints. @default all endpoints of the app */
  readonly endpoint?: string | readonly string[] | undefined;
  /** Names it in messages. @default the name of its class */
  readonly origin?: string;
  /**
   * Called once for each of its endpoints, at start, before the handlers are found.
   *
   * @returns what it does at this endpoint; `undefined`: nothing
   * @throws what stops the start
   */
  abstract attach(endpoint: McpEndpointHost): McpEndpointPlugin | undefined;
}

/**
 * An endpoint, as its plugins see it. A plugin gets it when it is attached.
 *
 * @experimental
 */
export abstract class McpEndpointHost {
  /** The option `name`. */
  abstract readonly name: string | undefined;
  /** The option `path`. */
  abstract readonly path: string;
  /** Its place among the endpoints of the app, in the order of their imports. @internal */
  abstract readonly index: number;
  /** Whether it is meant where no endpoint is named: it is the only one, or the one without a name. */
  abstract readonly isDefault: boolean;
  /** Names the guards of the endpoint itself, which run before those of its handlers. @internal */
  abstract readonly guards: readonly string[];
  /** Names it in keys of stores: the same on all nodes, and without colons. */
  abstract readonly owner: string;
  /** Time, which tests advance. */
  abstract readonly clock: McpClock;
  /**
   * Whether handlers of the app serve it, or servers of the option `server`: then its handlers, and the targets of calls, are not known.
   *
   * @internal
   */
  abstract readonly offer: Offer;
  /** The handlers of the app, as they are now. @internal */
  abstract readonly handlers: EndpointHandlersView;
  /** Returns the handlers of sources that list for each caller, as callers were listed lately. @internal */
  abstract kept(kind: ListedKind): Iterable<KeptHandler>;
  /** The nodes that serve it. @internal */
  abstract readonly nodes: EndpointNodes;
  /** Emits requests that were refused before a call was created. */
  abstract readonly refusals$: Observable<McpRefusal>;
  /** Emits each session that this node has ended for good. */
  abstract readonly sessionEnds$: Observable<McpSessionEnd>;
  /** Emits requests that were sent to the client of a session, in the async context of their sender. @internal */
  abstract readonly questions$: Observable<AskedQuestion>;
  /** What its clients can listen to, beside lists and resources. @internal */
  abstract readonly topics: Pick<ListenTopics, 'add' | 'has'>;
  /** Reports a failure of a store, to the log and to `events$`. @internal */
  abstract readonly storeFault: (error: unknown) => void;
  /**
   * Returns a part of the endpoint, once all providers exist: a service or a store by its class, such as `McpSessionService`.
   *
   * @throws Error of Nest if the endpoint has no such part
   */
  abstract get<T>(token: InjectionToken<T>): T;
  /** Returns what a plugin does at this endpoint, by its class; `undefined`: no plugin does it. @internal */
  abstract find<T extends object>(type: abstract new (...args: never[]) => T): T | undefined;
  /** The names that plugins call sensitive; `undefined`: no plugin names any, and the default names count. @internal */
  abstract readonly sensitive: readonly string[] | undefined;
  /** Ends a call with an error, whose message its client gets. A call that has ended stays as it is. */
  abstract cancel(call: McpCall, message: string): void;
  /** Returns the hosts of all endpoints of the app, this one included, in the order of their imports. */
  abstract all(): readonly McpEndpointHost[];
  /**
   * Adds an extension of the protocol, with its methods.
   *
   * @internal
   * @throws Error when a method is there already; McpHandlerDefinitionError with the option `server`
   */
  abstract extend(extension: EndpointExtension): void;
  /**
   * Adds handlers behind those of the app: its lists show them, and calls find them, unless a handler before has the same key.
   */
  abstract serve(source: HandlerSource): void;
  /**
   * Makes a handler for a source. Plugins are asked about one that is made in `attach()` when all are attached.
   *
   * @param registration as `McpRegistry` takes it: data, and a function, or a `BareHandler`, as its `handler`
   * @param source names where it is from, in messages and metrics
   * @throws McpHandlerDefinitionError when the endpoint cannot serve it, and what plugins throw
   */
  abstract entryOf(kind: ListedKind, registration: object, source: string): McpHandlerTarget;
  /**
   * Tells clients that their lists of a kind have changed.
   *
   * @param only the principals whose lists have, `null` for anonymous callers; absent: all
   */
  abstract changed(kind: ListedKind, only?: ReadonlySet<string | null>): void;
  /**
   * The plugin answers `handler()` differently from now on: it is asked again about each handler before the next run or list of it.
   *
   * @param kind clients are told that their lists of this kind have changed
   */
  abstract refresh(kind?: ListedKind): void;
}

/** The handlers of the app at an endpoint, without those of sources. @internal */
export interface EndpointHandlersView {
  get(kind: ListedKind, key: string): ListedHandler | undefined;
  all(kind: ListedKind): Iterable<ListedHandler>;
  /** Returns the handlers of a kind that a feature adds, as they were found. */
  ofFeature(feature: FeatureKind): readonly FeatureHandler[];
}

/** A handler as lists show it, and who may call it. @internal */
export interface ListedHandler extends McpHandlerTarget {
  readonly kind: ListedKind;
  /** Lists show this part. */
  readonly wire: ShownHandler;
  /** Lists show this part to clients that take no other structured content than objects (D18); absent: the same. */
  readonly legacyWire?: ShownHandler | undefined;
  /** Names the guards of the handler. */
  guards(): readonly string[];
  /** The scopes that a token needs. */
  scopes(): readonly string[];
}

interface ShownHandler {
  readonly title?: string | undefined;
  readonly description?: string | undefined;
}

/** The nodes that serve an endpoint. @internal */
export interface EndpointNodes {
  readonly nodeId: string;
  /** Emits the signals of all nodes, this one included, beside other messages between nodes: what comes is not checked. */
  readonly signals$: Observable<unknown>;
  /** Emits when signals may have been lost. */
  readonly missed$: Observable<void>;
  /** Sends a signal to all nodes. It may be lost. */
  signal(message: object): void;
  /** Returns the ids of the nodes that are alive, this one included; `undefined` if this one is the only one. */
  alive(): Promise<readonly string[] | undefined>;
}

/** An extension of the protocol that a plugin adds. @internal */
export interface EndpointExtension {
  readonly id: string;
  /** Clients read these settings in the capabilities. @default none */
  readonly settings?: ExtensionSettings;
  /** The era of the extension. @default both */
  readonly era?: McpEra;
  /** Whether clients must declare it, too, before they call its methods. @default true */
  readonly mutual?: boolean;
  readonly methods: ServedMethods;
}

/** Examines the tools of an endpoint. What a plugin returns from `attach()` extends it, and is found by `host.find()`. @internal */
export abstract class ToolExaminer {
  /** Returns what clients and models have difficulties with, the worst first. `tool` is its name; `undefined`: the endpoint. */
  abstract findings(): Promise<readonly { readonly tool: string | undefined }[]>;
}

/** Returns the endpoints of an app, in the order of their imports. @param modules of the app: `app.get(ModulesContainer)` */
export function hostsIn(modules: ModulesContainer): readonly McpEndpointHost[] {
  return [...modules.values()].flatMap(({ providers }) => {
    const host: unknown = providers.get(McpEndpointHost)?.instance;
    return host instanceof McpEndpointHost ? [host] : [];
  });
}

/** What a plugin does at one endpoint. Each method may be left out: without any of them a call pays nothing. @experimental */
export interface McpEndpointPlugin {
  /**
   * Asked about each call that is served, also of unknown methods. Its target is not known yet in the rings 'observe' and 'record':
   * their hooks also get the end of a call that ends before it is.
   *
   * @returns its hooks; `undefined`: none
   */
  call?(call: McpCall): McpCallHooks | undefined;
  /**
   * Asked about each tool, prompt, resource, template, and handler of a feature, when plugins are attached, or when it is registered, and again after
   * `refresh()` of the endpoint.
   *
   * @returns its hooks; `undefined`: calls of the handler pay nothing
   * @throws what refuses the handler: the start fails, or its registration; after `refresh()` it fails each run, behind the guards
   */
  handler?(target: McpHandlerTarget): McpHandlerHooks | undefined;
  /**
   * Returns whether lists, completions and subscriptions leave a handler out for a caller, so that no cache may share a list. What it
   * throws is logged, and hides it. Calls of it are served as before. A handler that is hidden from all callers has `hidden` in its hooks.
   */
  hides?(target: McpHandlerTarget, call: McpCall): boolean;
  /**
   * Called when the node stops: gives what runs `limitMs` to end. What it throws is logged.
   *
   * @param callsEnded resolves when the calls have ended, or had their time
   */
  drain?(limitMs: number, callsEnded: Promise<unknown>): Promise<void>;
  /** Called when the endpoint has stopped. What it throws is logged. */
  close?(): MaybePromise<void>;
  /**
   * Called when the app has found and registered its handlers, before it listens, as `onApplicationBootstrap()`.
   *
   * @throws (rejects) what stops the start
   */
  started?(): MaybePromise<void>;
  /** Names of properties, parameters and headers whose values are redacted. @default none are added */
  readonly sensitive?: readonly string[];
  /**
   * Counts timers that it has as long as the endpoint is open. Tests, which look for timers that are left, do not count them.
   *
   * @default 0
   */
  readonly standingTimers?: number;
  /** Ends what another node has left that has died. It must be repeatable: it is called again until it resolves. */
  nodeDied?(node: string): Promise<void>;
}

/** Acts on one call. What its methods throw is logged, and changes nothing, except for `admit`. @experimental */
export interface McpCallHooks {
  /**
   * Runs around the call, in its async context.
   *
   * @param serve serves the call: once, and with the same outcome whenever it is called
   * @returns what `serve` returned
   */
  around?<T>(serve: () => T): T;
  /**
   * Called before the call is served, and before guards have decided: it must not depend on the target (D31).
   *
   * @throws (rejects) the error that the call is refused with
   */
  admit?(): MaybePromise<void>;
  /** The server sends a notification that belongs to the call. */
  notified?(message: OutboundMessage): void;
  /** The server asks the client. @param answer never rejects */
  asked?(question: OutboundMessage, answer: Promise<PromiseSettledResult<unknown>>): void;
  /** The outcome for the client is certain. Called once, outside of the async context of the call. */
  answered?(end: McpCallEnd): void;
  /** Nothing runs for the caller any more: at once after `answered`, of a task when it has ended. Called once, as `answered`. */
  ended?(end: McpCallEnd): void;
}

/** What a plugin does with the calls of one handler. @experimental */
export interface McpHandlerHooks {
  /** Limits the results of a tool; of several plugins that of the first ring counts. @internal */
  readonly bound?: ResultBound | undefined;
  /** Lists, completions and subscriptions leave the handler out, for all callers. */
  readonly hidden?: boolean | undefined;
  /**
   * Asked when a run begins; of the rings inside 'rounds' for each round. What it throws fails the run, behind the guards.
   *
   * @returns the hooks of the run; `undefined`: none
   */
  run?(run: McpRun): McpRunHooks | undefined;
}

declare const PASSED: unique symbol;
/** A result that `next()` gave, in the form of the protocol: of a tool `{ content, structuredContent?, isError? }`. @experimental */
export type Passed = object & { readonly [PASSED]: true };

/** Acts on one run of a handler, or on one round of it. @experimental */
export interface McpRunHooks {
  /**
   * Runs around the rings inside.
   *
   * @param next runs them, once: called again it gives the same promise
   * @returns what `next()` gave, a copy of it by `passed()`, or what `run.answer()` gave; any other answer fails the call
   * @throws what fails the run; what `next()` did not throw is thrown behind the guards. Outside of the ring 'limit' the client gets a
   *   JSON-RPC error for it, and no text of an `HttpException`: throw that in `entering`
   */
  around?(next: () => Promise<Passed>): Promise<Passed>;
  /**
   * Runs around the rings inside, in place of `around`, without a promise where nothing waits.
   *
   * @param inside is called once
   * @returns what `inside` returns
   * @throws what `inside` throws; once the guards have accepted the caller, also what fails the run
   * @internal
   */
  enclose?<T>(inside: () => MaybePromise<T>): MaybePromise<T>;
  /**
   * Called once per round, behind guards and validation, in the order of the rings: the method waits for it.
   *
   * @returns the result in place of that of the method; `undefined`: the method runs
   * @throws a failure of the handler
   */
  entering?(entering: McpEntering): MaybePromise<object | undefined | void>;
  /** Called once per round, when the method is about to run. */
  entered?(): void;
  /** Called each time that the method has settled, also after a result that came before, such as that of `timeoutMs`. */
  returned?(): void;
  /** The handler asks the client. @param answered never rejects */
  asking?(answered: Promise<void>): void;
}

/** One run of a handler: of one call, with all its rounds of questions. @experimental */
export interface McpRun {
  readonly call: McpCall;
  readonly target: McpHandlerTarget;
  /** The arguments as the client sent them. */
  readonly sent: Readonly<Record<string, unknown>>;
  /** Whether it ends with questions, whatever its handler returns. @internal */
  readonly isMarked: boolean;
  /** Asks the guards alone, at most once. @throws (rejects) as a call would (D31) */
  assertAdmitted(): Promise<void>;
  /** Makes a result that stands for that of `next()`, once the guards have accepted the caller. @throws (rejects) as a call would */
  answer(result: object): Promise<Passed>;
  /** Returns the sealed state that the client sent with its answers, at the first call; `undefined` without one. @internal */
  takeRequestState(): string | undefined;
  /**
   * Asks the client, as `ctx.ask()` does.
   *
   * @param key names the question within the run
   * @param signal gives up waiting, where the client is asked while the handler waits
   */
  ask(key: string, question: McpQuestion, signal?: AbortSignal): Promise<unknown>;
  /**
   * Puts another client in the place of the one that has called, in the ring 'task': the call is answered with its `handle`, and the
   * handler goes on. What the handler asks and reports, the call's signal and what it holds are those of the new client.
   *
   * @internal
   * @throws Error before `entering`, after the run, a second time, and when `isMarked`: the first of the two decides
   */
  divertTo(client: DivertedClient): void;
}
