import { TestRunner } from 'vitest';
import type { TestAppOptions } from './app.js';

/**
 * # What is not run with requests spread over two nodes
 *
 * All else must pass there (`npm run test:nodes`). By what a test gives its app, or by its file and title.
 */
export const ONE_NODE_OPTIONS: readonly (readonly [option: keyof TestAppOptions, reason: string])[] = [
  ['sessionStore', 'its session store is a double of its own'],
  ['eventStore', 'its event store is a double of its own'],
  ['messageBus', 'its bus is a double of its own'],
  ['backend', 'its backend is its own'],
  ['eventLog', 'bounds of a log in memory'],
];

const REGISTRY = 'each process has a registry of its own: what is registered on both is told of by both';
const SERVICE = 'its handlers speak by the service of node 1, wherever they run';
const OBJECTS = 'looks into the objects of one node, or counts them';
const SERVERS = 'each node makes a server of its own for a session';
const SHUTDOWN = 'a process that stops leaves its sessions to the others';
const TIME = 'the time of Redis is not that of the test';
const PER_NODE = 'a bound that each node keeps for itself';
const TEXTS = 'a node that did not end a session itself says so';
/** Gaps, not decisions: what is found here is to be mended, and its line to go. */
const OPEN_IDS = 'OPEN: ids in flight are checked where they are served only (S11)';
const OPEN_CLOSING = 'OPEN: a handler cannot close the response of another node (G9)';
const OPEN_TWICE = 'OPEN: a reader on another node is handed what an open reader was handed already (G7)';

/** The file, below `test/`, the title, and why. */
export const ONE_NODE_TESTS: readonly (readonly [file: RegExp, title: RegExp, reason: string])[] = [
  [/legacy\/sessions-idle/, /./, TIME],
  [/legacy\/streams-open/, /finishedStreamMs/, TIME],
  [/legacy\/sessions-shutdown/, /./, SHUTDOWN],
  [/./, /\bshutdown\b|completes with the app/, SHUTDOWN],
  [/legacy\/sessions-access/, /S8: guards that leave no principal are warned of once/, OBJECTS],
  [/legacy\/sessions-access/, /S11: an id that is in flight is refused/, OPEN_IDS],
  [/legacy\/post\.spec/, /P2: dispatches nothing of a POST whose request ids are not all free/, OPEN_IDS],
  [/legacy\/(post|post-batch|sessions-events)\.spec/, /P1: |P3: mixed/, OBJECTS],
  [/legacy\/sessions-events/, /which streams are read|had to make room|events that are gone/, OBJECTS],
  [
    /legacy\/sessions-(initialize|rebuild)/,
    /makes one server|once and for all|is rebuilt once|have it rebuilt/,
    SERVERS,
  ],
  [/legacy\/sessions-rebuild/, /keeps the log level|keeps the subscriptions|while it is being rebuilt/, SERVERS],
  [/legacy\/sessions-end/, /S1[24]: answers every open call|of many DELETEs/, TEXTS],
  [/legacy\/handler-context/, /McpSessionService|of many calls at once|to all sessions|explicit context wins/, SERVICE],
  [/legacy\/handler-context/, /outside of any call/, SERVERS],
  [/legacy\/sessions-(service|requests)/, /inside a call|after its call|on whose behalf/, SERVICE],
  [/legacy\/sessions-requests/, /fails at once when nobody listens|\(release\)/, SERVICE],
  [/legacy\/server-requests-ends/, /that the service asked inside a handler/, SERVICE],
  [/legacy\/streams-priming/, /as often as the client|ends all responses|close the standalone/, OPEN_CLOSING],
  [/legacy\/streams-readers/, /each message goes to one reader/, OPEN_TWICE],
  [/legacy\/streams-readers/, /a fifth ends|as many as come at once|no concern of another/, PER_NODE],
  [/legacy\/sessions-failed/, /returns the same server twice/, SERVERS],
  [
    /legacy\/(sessions-failed|bounds-and-endings|edge-caps)/,
    /S15|shut down meanwhile|deleted while it is rebuilt/,
    SHUTDOWN,
  ],
  [/legacy\/bounds-and-endings/, /answers 429/, PER_NODE],
  [
    /handlers\/changes-lists/,
    /once per turn|who has left or comes later|waits for a session that does not listen/,
    REGISTRY,
  ],
  [/handlers\/changes-log-level/, /also at the same time/, OBJECTS],
  [/legacy\/edge-caps/, /E13: everybody gets 503/, SHUTDOWN],
  [/handlers\/scopes-durable/, /once for each tenant|which have their own/, OBJECTS],
  [/handlers\/lists-per-caller-guards/, /tells the operator/, OBJECTS],
  [/modern\/subscriptions/, /comes first|guards hide|both eras hear|slow reader|its handlers hear/, REGISTRY],
  [/modern\/subscriptions/, /one more than there may be|why it was refused/, PER_NODE],
  [/modern\/clients/, /of the list and of a resource/, REGISTRY],
  [/modern\/both-eras/, /each asked once|cancellation reaches the handler/, OBJECTS],
  [/modern\/questions/, /end the run, and are answered|the same tools in both eras/, OBJECTS],
  [/modern\/concurrency/, /200 clients/, OBJECTS],
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
