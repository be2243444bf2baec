import type { IncomingMessage } from 'node:http';
import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import { ModulesContainer } from '@nestjs/core';
import { Observable, type Subscriber } from 'rxjs';
import { McpClock, type ClockTimer } from '../core/common/clock.js';
import { McpOptionError } from '../core/common/options.js';
import type { StreamFlow } from '../core/calls/reply.js';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from '../core/plugins/mcp-plugin.js';
import { McpResponder } from '../core/http/responder.js';
import type { McpError } from '../core/protocol/errors.js';
import type { McpEvent } from '../core/protocol/events.js';
import { LiveEndpoint } from './live-endpoint.js';
import { EventRing } from './live-events.js';
import { LIVE_OPTIONS, type ResolvedLiveOptions } from './live.options.js';
import { changeOf, type EndpointState, wholeOf } from './live-state.js';

/** Pages are updated every so many milliseconds. */
const UPDATE_MS = 500;
/** Stores and bus are asked every so many milliseconds. */
const ASK_MS = 5_000;
/** A page must reconnect after this many milliseconds, so that its guards decide again. */
const READER_LIFE_MS = 10 * 60_000;
/** At most this many bytes wait for a page that does not read, behind the update that is being sent. */
const MAX_BUFFERED_BYTES = 64 * 1024;
const KEEP_ALIVE_MS = 15_000;
const LAST_READS_MS = 300;

interface Reader {
  readonly subscriber: Subscriber<McpEvent>;
  readonly flow: StreamFlow;
  readonly until: number;
  /** Says that an update was skipped, so that the page gets a snapshot next. */
  behind: boolean;
}

/**
 * # What the open pages get
 *
 * One timer for all open pages reads the endpoints, and sends the changes. A delta is created once for all pages. A
 * page that reads slowly is skipped until it has read, and then gets a snapshot, so its buffer is bounded.
 */
@Injectable()
export class LiveFeed extends McpPlugin implements OnApplicationBootstrap, OnModuleDestroy {
  readonly ring = 'observe';
  /** Writes to the pages; it is a separate responder, so that open pages do not count as streams of an endpoint. */
  readonly responder: McpResponder;
  readonly #events = new EventRing();
  readonly #readers = new Set<Reader>();
  /** In the order of the imports of the app. */
  #endpoints: readonly LiveEndpoint[] = [];
  #timer: ClockTimer | undefined;
  #askedAt = 0;
  #state: readonly EndpointState[] = [];
  /** The number of the last event that was sent to the pages. */
  #lastSent = 0;
  #closed = false;

  /** @throws McpOptionError when there is a second page of its path: the platform would refuse its routes with a text of its own, or serve one of both */
  constructor(
    @Inject(LIVE_OPTIONS) private readonly options: ResolvedLiveOptions,
    @Inject(ModulesContainer) modules: ModulesContainer,
    @Inject(McpClock) private readonly clock: McpClock,
  ) {
    super();
    assertOwnPaths(modules);
    const limits = { keepAliveMs: KEEP_ALIVE_MS, maxBufferedBytes: MAX_BUFFERED_BYTES };
    this.responder = new McpResponder({ ...limits, clock });
  }

  attach(host: McpEndpointHost): McpEndpointPlugin {
    const endpoint = new LiveEndpoint(host, this.clock, this.#events, this.options);
    this.#endpoints = [...this.#endpoints, endpoint].toSorted((one, other) => one.index - other.index);
    return endpoint;
  }

  /** @throws McpOptionError when there is no endpoint */
  onApplicationBootstrap(): void {
    if (this.#endpoints.length > 0) return;
    const text = 'McpLiveModule needs an MCP endpoint, and the app has none. Import McpStreamableModule.forRoot() too.';
    throw new McpOptionError('imports', text);
  }

  /** Sends a last update: pages show the shutdown of the app, because its endpoints end before. */
  async onModuleDestroy(): Promise<void> {
    this.#closed = true;
    if (this.#readers.size > 0) this.#update();
    for (const endpoint of this.#endpoints) endpoint.stop();
    for (const { subscriber } of Array.from(this.#readers)) subscriber.complete();
    await this.responder.drain(LAST_READS_MS);
  }

  get nodeIds(): readonly string[] {
    return this.#endpoints.map(({ nodeId }) => nodeId);
  }

  /**
   * Refuses unknown hosts, against DNS rebinding: the page has the hosts of its endpoints.
   *
   * @returns `undefined` when one of them takes the Host
   */
  refusalOf(request: IncomingMessage): McpError | undefined {
    const refusals = this.#endpoints.map((endpoint) => endpoint.refusalOf(request));
    return refusals.includes(undefined) ? undefined : refusals[0];
  }

  get full(): boolean {
    return this.#closed || this.#readers.size >= this.options.maxReaders;
  }

  /** Returns the reason why a further page is refused. */
  get refusal(): { readonly error: string; readonly message: string } {
    if (this.#closed) return { error: 'UNAVAILABLE', message: 'The server is shutting down.' };
    const { maxReaders } = this.options;
    const message = `The live page is open ${maxReaders} times on this node, which is the limit ("maxReaders"). Close one of them.`;
    return { error: 'TOO_MANY_READERS', message };
  }

  /** Sends one page a snapshot, then deltas. */
  updates$(flow: StreamFlow): Observable<McpEvent> {
    return new Observable((subscriber) => {
      const reader: Reader = { subscriber, flow, until: this.clock.now() + READER_LIFE_MS, behind: false };
      if (this.#readers.size === 0) this.#begin();
      this.#readers.add(reader);
      subscriber.add(() => this.#left(reader));
      subscriber.next(this.#snapshot());
    });
  }

  /** @returns `undefined` if there is no such thing. @throws (rejects) when a store does not answer */
  async details(endpoint: number, kind: string, key: string): Promise<object | undefined> {
    return this.#endpoints[endpoint]?.details(kind, key);
  }

  /** @returns why the page cannot be a client of that endpoint; `undefined` if it can */
  trialRefusal(endpoint: number, request: IncomingMessage): string | undefined {
    const { tryIt = process.env['NODE_ENV'] !== 'production' } = this.options;
    if (!tryIt)
      return 'It is off here. McpLiveModule.forRoot({ tryIt: true }) turns it on, also where NODE_ENV is "production".';
    return this.#endpoints[endpoint]?.refusalOf(request)?.message;
  }

  /** @returns whether there was such a session. @throws (rejects) when a store does not answer */
  async endSession(key: string): Promise<boolean> {
    for (const endpoint of this.#endpoints) if (await endpoint.endSession(key)) return true;
    return false;
  }

  /** @returns whether there was such a call, or task, on this node. @throws (rejects) when a store does not answer */
  async cancelCall(key: string): Promise<boolean> {
    for (const endpoint of this.#endpoints) if (await endpoint.cancelCall(key)) return true;
    return false;
  }

  /** @returns whether there was such a tool. @throws (rejects) when a store does not answer */
  async switchTool(key: string, on: boolean): Promise<boolean> {
    for (const endpoint of this.#endpoints) if (await endpoint.switchTool(key, on)) return true;
    return false;
  }

  #begin(): void {
    this.#timer = this.clock.setInterval(() => this.#update(), UPDATE_MS);
    for (const endpoint of this.#endpoints) endpoint.watch(true);
    this.#ask();
    this.#look();
  }

  #left(reader: Reader): void {
    this.#readers.delete(reader);
    if (this.#readers.size > 0) return;
    this.clock.clear(this.#timer);
    for (const endpoint of this.#endpoints) endpoint.watch(false);
    this.#state = [];
  }

  #look(): void {
    this.#state = this.#endpoints.map((endpoint) => endpoint.state());
    this.#lastSent = this.#events.last;
  }

  #ask(): void {
    this.#askedAt = this.clock.now();
    for (const endpoint of this.#endpoints) void endpoint.ask();
  }

  #update(): void {
    const now = this.clock.now();
    if (now - this.#askedAt >= ASK_MS) this.#ask();
    const [before, lastSent] = [this.#state, this.#lastSent];
    this.#look();
    const delta = this.#delta(before, lastSent);
    let snapshot: McpEvent | undefined;
    for (const reader of Array.from(this.#readers)) {
      if (now >= reader.until) reader.subscriber.complete();
      else if (reader.flow.paused) reader.behind = true;
      else if (reader.behind) {
        reader.behind = false;
        reader.subscriber.next((snapshot ??= this.#snapshot()));
      } else if (delta !== undefined) reader.subscriber.next(delta);
    }
  }

  #snapshot(): McpEvent {
    const endpoints = this.#state.map((state) => wholeOf(state));
    return this.#event({
      type: 'snapshot',
      endpoints,
      events: this.#events.after(0).filter(({ n }) => n <= this.#lastSent),
    });
  }

  /** @returns `undefined` when nothing has changed */
  #delta(before: readonly EndpointState[], lastSent: number): McpEvent | undefined {
    const endpoints = this.#state.flatMap((state, index) => {
      const change = changeOf(before[index]!, state);
      return change ? [{ index, ...change }] : [];
    });
    const events = this.#events.after(lastSent);
    if (endpoints.length === 0 && events.length === 0) return undefined;
    return this.#event({ type: 'delta', endpoints, events });
  }

  #event(update: object): McpEvent {
    return { data: JSON.stringify({ at: this.clock.now(), ...update }) };
  }
}

/** @throws McpOptionError */
function assertOwnPaths(modules: ModulesContainer): void {
  const pages = [...modules.values()].filter(({ providers }) => providers.has(LiveFeed));
  const paths = pages.flatMap(({ controllers }) =>
    Array.from(controllers.keys(), (controller) => Reflect.getMetadata('path', controller as object) as string),
  );
  const twice = paths.find((path, index) => paths.indexOf(path) !== index);
  if (twice === undefined) return;
  const text = `The app has McpLiveModule several times with the path "${twice}". Import it once, in one module of the app, or give each a "path" of its own.`;
  throw new McpOptionError('path', text);
}
