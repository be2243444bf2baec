import {
  InMemoryEventStore,
  InMemoryMessageBus,
  InMemorySessionStore,
  type McpEventStore,
  type McpSessionStore,
} from 'nestjs-mcp-streamable';
import { InMemoryMessageHub } from '../../src/bus/in-memory-message-bus.js';
import { TestApp, type TestAppOptions } from './app.js';
import { shared } from './doubles.js';
import { TrackedClock } from './tracked-clock.js';

const KEYS = ['a secret that all nodes of a deployment know'];

/** What the nodes of one deployment share: stores in the memory of the test, and a hub between their buses. */
export class Deployment {
  readonly clock: NonNullable<TestAppOptions['clock']>;
  readonly sessionStore: McpSessionStore;
  readonly eventStore: McpEventStore;
  readonly #hub = new InMemoryMessageHub();

  constructor(clock: NonNullable<TestAppOptions['clock']> = new TrackedClock()) {
    this.clock = clock;
    this.sessionStore = shared(new InMemorySessionStore(clock));
    this.eventStore = shared(new InMemoryEventStore({}, clock));
  }

  /** Starts one more node. */
  node(options: TestAppOptions): Promise<TestApp> {
    const { clock, sessionStore, eventStore } = this;
    const messageBus = new InMemoryMessageBus(undefined, this.#hub);
    return TestApp.start({ clock, sessionStore, eventStore, messageBus, requestStateKeys: KEYS, ...options });
  }
}
