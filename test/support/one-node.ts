import { TestRunner } from 'vitest';
import type { TestAppOptions } from './app.js';

/**
 * # What is not run with requests spread over two nodes
 *
 * All else must pass there (`npm run x -- test:nodes`). By what a test gives its app, or by its file and title.
 */
const ONE_NODE_OPTIONS: readonly (readonly [option: keyof TestAppOptions, reason: string])[] = [
  ['sessionStore', 'its session store is a double of its own'],
  ['stateStore', 'its state store is its own'],
  ['eventStore', 'its event store is a double of its own'],
  ['messageBus', 'its bus is a double of its own'],
  ['backend', 'its backend is its own'],
];

const OBJECTS = 'looks into the objects of one node, or counts them';
const SERVERS = 'each node makes a server of its own for a session';
const SHUTDOWN = 'a process that stops leaves its sessions to the others';
const TIME = 'counts milliseconds, by the time of Redis too';
const MEMORY = 'measures what one process holds, its log included';
const CLOSED = 'a process that stops lets go of Redis, which the test asks afterwards';
const PER_NODE = 'a bound that each node keeps for itself';
const WARNINGS = 'each node warns for itself';
const LARGE =
  'more than goes through Redis in the time of a test: hundreds of MiB, or a thousand changes of one record';
const EVICTED =
  'Redis gives a reader its events later than they are written: the log may evict them before its socket is full';
const CUT = 'Fastify cuts off who sends too much to a route of the app: behind a balancer its answer may be lost';
const KEPT = 'a switch is kept in the state store for a week, also one that is on again';
const ORDER = 'what a client sends to one node may overtake what it has sent to another (docs/several-nodes.md)';
/** To tell the others would cost every call a further step (docs/several-nodes.md). */
const UNLOGGED = 'a call is known to its node only before it has begun a stream (test/cluster/calls.spec.ts)';

/** The file, below `test/`, the title, and why. */
const ONE_NODE_TESTS: readonly (readonly [file: RegExp, title: RegExp, reason: string])[] = [
  [/legacy\/sessions-idle/, /./, TIME],
  [/legacy\/streams-open/, /finishedStreamMs/, TIME],
  [/legacy\/sse-response/, /a resumed GET that is silent/, TIME],
  [/legacy\/(sessions-shutdown|shutdown-drain)/, /./, SHUTDOWN],
  [/legacy\/sessions-off-servers/, /when the app stops/, SHUTDOWN],
  [/./, /\bshutdown\b|completes with the app/, SHUTDOWN],
  [/handlers\/pagination/, /write an entry as JSON once/, OBJECTS],
  [/legacy\/sessions-access/, /S8: guards that set no principal cause one warning/, OBJECTS],
  [/legacy\/sessions-access/, /S11: a request with an id that is in flight is refused/, UNLOGGED],
  [/legacy\/post\.spec/, /P2: a POST is not dispatched at all when one of its request ids is in use/, UNLOGGED],
  [
    /legacy\/sessions-(initialize|rebuild)/,
    /makes one server|and stays live|is rebuilt once|do not rebuild it/,
    SERVERS,
  ],
  [/legacy\/sessions-rebuild/, /keeps the log level|keeps the subscriptions|while it is being rebuilt/, SERVERS],
  [/legacy\/handler-context/, /of a server outside of any request|with the id of another request/, SERVERS],
  [/legacy\/streams-readers/, /that come at once|do not affect other streams/, PER_NODE],
  [/legacy\/edge-body/, /on fastify.*may be more than the app takes elsewhere/, CUT],
  [/legacy\/post-slow-reader/, /a reader that is too slow/, EVICTED],
  [/legacy\/sessions-requests/, /passes on the progress/, ORDER],
  [/legacy\/server-requests-ends/, /the first of two answers counts/, ORDER],
  [
    /legacy\/(sessions-failed|bounds-and-endings|edge-caps)/,
    /S15|shut down meanwhile|deleted while it is rebuilt/,
    SHUTDOWN,
  ],
  [/legacy\/bounds-and-endings/, /gets 429/, PER_NODE],
  [/legacy\/bounds-and-endings/, /a subscription beyond/, LARGE],
  [/handlers\/observables-back-pressure/, /./, MEMORY],
  [/handlers\/route-tools/, /a log line at the start|where "readOnly" is set/, WARNINGS],
  [/handlers\/uris/, /is switched off/, KEPT],
  [
    /handlers\/idempotency/,
    /a repeat gets the result|a failure is|client that has left|cancelled while|registered/,
    OBJECTS,
  ],
  [/handlers\/confirm/, /a registered tool asks|a client that cannot ask gets a link/, OBJECTS],
  [
    /handlers\/(idempotency|confirm)/,
    /what was interrupted|a client that opens URLs|a node that shares no store/,
    TIME,
  ],
  [/legacy\/edge-caps/, /E13: a node refuses new clients/, SHUTDOWN],
  [/legacy\/edge-caps/, /once its client had 5 seconds/, TIME],
  [/legacy\/edge-caps/, /is a warning, the next ones are not/, WARNINGS],
  [/legacy\/edge-origin/, /the first refusal is logged/, WARNINGS],
  [
    /modern\/subscriptions/,
    /above the total limit|why its subscription was refused|while guards decide about it/,
    PER_NODE,
  ],
  [/modern\/own-server/, /has a server of its own until the session ends/, SERVERS],
  [/modern\/(own-server|attacks-servers)/, /when the app stops|however its request ends$/, CLOSED],
];

/** Skips the test that runs if it gives its app what only one node can have. */
export function skipForOptions(options: TestAppOptions): void {
  const found = ONE_NODE_OPTIONS.find(([option]) => options[option] !== undefined);
  if (found) TestRunner.getCurrentTest()?.context.skip(found[1]);
}

/** Why the test of this name is not run on two nodes. */
export function reasonFor(file: string, title: string): string | undefined {
  return ONE_NODE_TESTS.find(([files, titles]) => files.test(file) && titles.test(title))?.[2];
}
