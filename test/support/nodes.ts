import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import {
  InMemoryEventStore,
  InMemoryMessageBus,
  InMemoryMessageHub,
  InMemorySessionStore,
  type McpSessionStore,
} from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { expect } from 'vitest';
import { TestApp, type TestAppOptions } from './app.js';
import { shared } from './doubles.js';
import { LossyBus, NodeBackend } from './node-backend.js';
import { RawClient } from './raw-client.js';
import { TrackedClock } from './tracked-clock.js';

const KEYS = ['a secret that all nodes of a deployment know'];

/** Makes buses that hear each other, in the memory of the test. */
export function busesOfOneHub(): () => InMemoryMessageBus {
  const hub = new InMemoryMessageHub();
  return () => new InMemoryMessageBus(undefined, hub);
}

/** What the nodes of one deployment share: stores in the memory of the test, and a hub between their buses. */
export class Deployment {
  readonly clock: NonNullable<TestAppOptions['clock']>;
  readonly sessionStore: McpSessionStore;
  readonly eventStore: InMemoryEventStore;
  readonly members: Member[] = [];
  readonly #hub = new InMemoryMessageHub();
  readonly #killed = new Set<string>();

  /** @param clock of the stores, and of nodes that have none of their own */
  constructor(clock: NonNullable<TestAppOptions['clock']> = new TrackedClock()) {
    this.clock = clock;
    this.sessionStore = shared(new InMemorySessionStore(clock));
    this.eventStore = new InMemoryEventStore({}, clock, 'shared');
  }

  /** Starts one more node. */
  node(options: TestAppOptions): Promise<TestApp> {
    const { clock, sessionStore, eventStore } = this;
    const messageBus = options.messageBus ?? new InMemoryMessageBus(undefined, this.#hub);
    return TestApp.start({ clock, sessionStore, eventStore, requestStateKeys: KEYS, ...options, messageBus });
  }

  /** Starts one more node, whose ways to the others can be disturbed. */
  async member(options: TestAppOptions): Promise<Member> {
    const backend = new NodeBackend();
    const bus = new LossyBus(new InMemoryMessageBus(undefined, this.#hub));
    const [sessionStore, eventStore] = [backend.over(this.sessionStore), backend.over(this.eventStore)];
    const app = await this.node({ sessionStore, eventStore, messageBus: bus, ...options });
    const events: McpSessionEvent[] = [];
    app.service.events$.subscribe((event) => events.push(event));
    const member: Member = { app, bus, backend, events };
    this.members.push(member);
    return member;
  }

  /** The node is thought dead: another one is told, nobody hears it, and it hears nobody. */
  kill({ bus }: Pick<Member, 'bus'>): void {
    this.#killed.add(bus.nodeId);
    this.#hub.kill(bus.nodeId);
  }

  /** One more node is told of a dead one. */
  mourn({ bus }: Pick<Member, 'bus'>, { bus: { nodeId } }: Pick<Member, 'bus'>): void {
    bus.mourn(nodeId);
  }

  /** Stops all nodes, and expects that they leave nothing behind. */
  async close(): Promise<void> {
    for (const { backend, bus } of this.members) {
      backend.back();
      bus.heal();
    }
    // What they end nobody hears.
    for (const member of this.members.filter(({ bus }) => this.#killed.has(bus.nodeId))) await this.stop(member);
    for (const { app } of this.members) await app.expectNothingLeft();
    const left = this.members.splice(0);
    await Promise.all(left.map(({ app }) => app.app.close()));
    for (const { app } of left) expect(app.clock.pending).toBe(0);
  }

  /** Stops a node; the others go on. */
  async stop(member: Member): Promise<void> {
    this.members.splice(this.members.indexOf(member), 1);
    const closing = member.app.app.close();
    const { clock } = member.app;
    // It may wait a moment for stores that do not answer.
    const closed = closing.then(() => true);
    const aMoment = () => (clock instanceof ManualClock ? clock.advance(100).then(() => false) : closed);
    while (!(await Promise.race([closed, aMoment()])));
    await closing;
  }

  /** Takes out a node that is dead: its process is gone, and with it what it held. */
  bury(member: Member): Promise<void> {
    member.backend.die();
    return this.stop(member);
  }
}

/** One node of a deployment. */
export interface Member {
  readonly app: TestApp;
  readonly bus: LossyBus;
  readonly backend: NodeBackend;
  /** What has happened to its sessions. */
  readonly events: McpSessionEvent[];
}

/** The same client, sent to another node by its load balancer. */
export function at({ url }: { readonly url: string }, client: RawClient): RawClient {
  return Object.assign(new RawClient(url, client.headers), {
    sessionId: client.sessionId,
    protocolVersion: client.protocolVersion,
  });
}
