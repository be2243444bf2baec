import { posix } from 'node:path';
import { parseFile } from './imports.js';
import { type FileMap, isSpec, ROOT, roomOf, type Violation } from './rules.js';

/**
 * # What features know of the core
 *
 * Each folder of `src` beside the core is a feature, which can be taken out (`npm run x -- check:features`). The core imports none. A
 * feature imports `core/protocol`, `core/common`, the door (`core/plugins`), what the main entries export, and a few other names of the
 * core, which stand here with the reasons. It acts in seven ways, no others: docs/architecture.md names them.
 */

/** Folders of `src` that are no features: the core, and the entries that gather names of all. */
const NO_FEATURES: readonly string[] = ['core', 'decorators', 'plugins', 'stores'];
/** They carry requests as HTTP does, and so they know the endpoint and its replies: their names are listed, not limited. */
const EDGES: readonly string[] = ['stdio', 'standalone'];
const PUBLIC: readonly string[] = [
  'src/index.ts',
  'src/stores/index.ts',
  'src/decorators/index.ts',
  'src/plugins/index.ts',
];
const OPEN_ROOMS: readonly string[] = ['common', 'protocol', 'plugins'];

/** The most internal names of a feature. */
export const mostOf = (feature: string): number => (EDGES.includes(feature) ? Infinity : 12);

/** The internal names of a feature, by the reason why it needs them. */
type Reasons = Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
const INTERNAL: Reasons = {
  dev: { 'a file belongs to one endpoint': ['EndpointName'], 'what is wrong is logged': ['logger'] },
  doctor: {
    'its findings follow what the endpoint logs at start': ['StartLog', 'logger'],
  },
  limits: {
    'it is asked about handlers, whose options are declared beside the decorator': [
      'HandlerConcurrency',
      'CONCURRENCY_TABLE',
    ],
    'it bounds results, and answers with a text in their place': ['ResultBound', 'textBlock'],
    'it gives up what is cancelled, as others do': ['HandlerCancelled'],
  },
  switches: {
    'it is asked about handlers, by their keys': ['keyOf'],
    'it looks at its store again with each sweep of the sessions': ['LiveSessions'],
    'what is wrong is logged': ['logger'],
  },
  effects: {
    'it is asked about handlers, whose options are declared beside the decorator': [
      'ConfirmMessage',
      'ConfirmOptions',
      'IdempotencyOptions',
      'ToolConfirmOptions',
    ],
    'it enters a call behind its guards, and gives up what is cancelled': ['HandlerCancelled'],
    'a key belongs to a caller, a path and the arguments of a call': ['routeText', 'hashOf', 'digestOfJson'],
    'what is wrong is logged, or refuses the handler': ['logger', 'namesText'],
  },
  server: {
    'its servers are a dispatcher, which gets calls of sessions': [
      'McpDispatcher',
      'McpDispatchedSession',
      'McpSessionSettings',
    ],
    'a server serves a call, with the token of its caller': ['runInCall', 'authOf'],
    'its factory has an error that sessions report': ['McpServerFactoryError'],
  },
  auth: {
    'a guard decides about a request, and challenges its sender': [
      'Challenger',
      'Challenges',
      'SESSION_METHODS',
      'setCredentials',
      'userOf',
      'authOf',
    ],
    'documents are answered in front of the routes of the app': ['HttpEdge'],
    'guards of scopes are asked again, and say what a caller lacks': ['ASKED_AGAIN', 'GuardAskedAgain', 'DENIAL_DATA'],
    'the log of operators': ['logError', 'logger'],
  },
  card: { 'documents are answered in front of the routes of the app': ['HttpEdge'] },
  catalogue: {
    'its decorator marks a class, which it finds with its method': ['markClass', 'EndpointClasses', 'MarkedClass'],
    'its tools are entries of data that a method serves': ['RegisteredEntries', 'ToolEntry'],
    'its tools have the options of `@Tool()`, as data': [
      'HANDLER_OPTION_NAMES',
      'ConfirmOptions',
      'IdempotencyOptions',
    ],
    'it lists for a caller, outside of the call that asks first': ['callerOf', 'runOutsideCalls'],
    'it logs what it leaves out': ['logger', 'inspected'],
  },
  audit: {
    'a record describes the call': ['infoOf'],
    'its lines for operators have a context of their own': ['OperatorLogger'],
  },
  live: {
    'it shows calls, with what they send, and why they have failed': ['infoOf', 'OutboundMessage', 'HANDLER_FAILED'],
    'it shows and cancels tasks, which are diverted calls': ['DivertedCalls', 'DivertedClient'],
    'it shows the sessions of this node': ['LiveSessions'],
    'it shows an option of tools': ['taskOptionOf'],
    'it shows the paths of an endpoint, and has the hosts of its endpoints (E1)': ['HttpEdge', 'isCrossOrigin'],
    'it sends events to pages as streams are sent to clients': ['McpResponder', 'StreamFlow'],
    'what an operator has done is logged': ['logger'],
  },
  stdio: {
    'a line is the body of a POST, and is served and limited as one': [
      'McpEndpoint',
      'McpIncoming',
      'PendingReply',
      'StreamFlow',
      'McpRequestReader',
      'loneRequestId',
    ],
    'the client of the legacy era has one session': ['beginsSession', 'KnownSession'],
    'the connection ends with the endpoints of the app': ['EndpointShutdown'],
    'faults are logged': ['logger', 'logError'],
  },
  standalone: {
    'the edge, the reader, the controller and the responder of the module serve it without Nest': [
      'hostOriginPolicy',
      'refusalOf',
      'methodNotAllowed',
      'McpRequestReader',
      'McpResponder',
      'refuse',
      'sessionOf',
      'Challenges',
      'HTTP_TABLE',
      'McpHttpOptions',
      'maxBodyValues',
    ],
    'it stands in the place of an endpoint': [
      'McpEndpoint',
      'McpIncoming',
      'McpReply',
      'PendingReply',
      'KnownSession',
      'assertNoCursor',
      'refuseModern',
    ],
    'it makes one session without injection': [
      'SessionRuntime',
      'CallObserver',
      'BusNodes',
      'McpSessionOptions',
      'SESSION_TABLE',
    ],
  },
  skills: {
    'its decorator declares handlers, with the options that all handlers have': [
      'declareHandler',
      'LimitedOptions',
      'LIMITED',
      'namesOf',
    ],
    'it is a source of handlers, and asks guards in the context of a call': ['HandlerCalls'],
    'files have media types': ['typeOfName'],
    'it logs what it leaves out': ['logger'],
  },
  tasks: {
    'a task is the client of a call': ['DivertedClient', 'OutboundMessage', 'endOf'],
    'it serves `ctx.task` and `ctx.startTask()`': ['TaskPort', 'McpTask'],
    'it reads an option of tools': ['taskOptionOf'],
    'requests about a task need the scopes of its tool, and the tenant of its call': ['ToolAccess', 'routeText'],
    'clients listen to tasks': ['StreamFlow'],
    'nodes share the store of the option `backend`': ['MCP_BACKEND'],
    'the log of operators': ['logger'],
  },
  testing: {
    'tests find an endpoint by its path in the router of the app': ['HttpEdge'],
    'tests count open responses, and apps close without waiting for calls': ['McpResponder', 'McpEndpoint'],
    'the contract of event stores has two scopes': ['isShared'],
  },
};

/** The ways in: what features extend, implement or provide for the core to use, by the way that it belongs to. */
export const WAYS_IN: Readonly<Record<string, readonly string[]>> = {
  plugin: [
    'McpPlugin',
    'McpEndpointPlugin',
    'McpCallHooks',
    'McpRunHooks',
    'McpTopic',
    'McpInstrumentation',
    'ToolExaminer',
    'Challenger',
    'OffSwitch',
  ],
  client: ['CallingClient', 'DivertedClient', 'TaskPort', 'McpTask'],
  dispatcher: ['McpDispatcher'],
  source: ['HandlerSource'],
  stores: ['McpSessionStore', 'McpStateStore', 'McpEventStore', 'McpSharedEventStore'],
  bus: ['McpMessageBus'],
  edge: ['McpController'],
};
/** The feature that a path belongs to. @returns `undefined` for the core, the entries of all, and the files of `src` itself */
function featureOf(path: string): string | undefined {
  const [, folder] = path.split('/');
  return roomOf(path) === ROOT || NO_FEATURES.includes(folder!) ? undefined : folder;
}

/** A name that a file takes of another one. */
interface Taken {
  readonly path: string;
  readonly line: number;
  readonly source: string;
  readonly name: string;
}

function namesTaken(path: string, text: string): Taken[] {
  return parseFile(path, text)
    .references.filter(({ specifier }) => specifier.startsWith('.'))
    .flatMap(({ specifier, names, line }) => {
      const source = posix.join(posix.dirname(path), specifier).replace(/js$/, 'ts');
      return names.map((name) => ({ path, line, source, name }));
    });
}

const sourcesOf = (files: FileMap): [path: string, text: string][] => [...files].filter(([path]) => !isSpec(path));

/** Returns what features take of the core and of the files of `src`, beyond what is open to all; each name with its first use. */
export function internalNames(files: FileMap): Map<string, Map<string, Taken>> {
  const keyOf = ({ source, name }: Taken): string => `${source} ${name}`;
  const open = new Set(PUBLIC.flatMap((path) => namesTaken(path, files.get(path) ?? '')).map(keyOf));
  const found = new Map<string, Map<string, Taken>>();
  for (const [path, text] of sourcesOf(files)) {
    const feature = featureOf(path);
    if (feature === undefined) continue;
    const names = found.get(feature) ?? new Map<string, Taken>();
    found.set(feature, names);
    for (const taken of namesTaken(path, text)) {
      const { source, name } = taken;
      const isOfCore = source.startsWith('src/core/') || roomOf(source) === ROOT;
      const isOpen = OPEN_ROOMS.some((room) => source.startsWith(`src/core/${room}/`)) || PUBLIC.includes(source);
      if (isOfCore && !isOpen && !open.has(keyOf(taken)) && !names.has(name)) names.set(name, taken);
    }
  }
  return found;
}

/** All that features know of the core without a reason, or beyond their number. */
export function findInternalNames(files: FileMap, reasons: Reasons = INTERNAL): Violation[] {
  const violations: Violation[] = [];
  for (const [feature, names] of internalNames(files)) {
    const listed = Object.values(reasons[feature] ?? {}).flat();
    const place = { path: `src/${feature}`, line: 1 };
    const most = mostOf(feature);
    if (names.size > most) {
      const message = `imports ${names.size} internal names of the core, more than ${most}: ${[...names.keys()].toSorted().join(', ')}`;
      violations.push({ ...place, message });
    }
    for (const [name, { path, line, source }] of names) {
      if (listed.includes(name)) continue;
      const message = `"${name}" of ${source} is internal: use the door, or give the reason in test/architecture/features.ts`;
      violations.push({ path, line, message });
    }
    for (const name of listed.filter((each) => !names.has(each))) {
      violations.push({
        ...place,
        message: `needs no "${name}": take it off the list in test/architecture/features.ts`,
      });
    }
  }
  return violations;
}

/** Imports of features by the core. */
export function importsOfFeatures(files: FileMap): Taken[] {
  return sourcesOf(files)
    .filter(([path]) => path.startsWith('src/core/'))
    .flatMap(([path, text]) => namesTaken(path, text))
    .filter(({ source }) => source.startsWith('src/') && !source.startsWith('src/core/') && roomOf(source) !== ROOT);
}

/** Returns what features extend, implement or provide for the core to use, with the features that do. */
export function rolesOfFeatures(files: FileMap): Map<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const [path, text] of sourcesOf(files)) {
    const feature = featureOf(path);
    if (feature === undefined) continue;
    const ofCore = namesTaken(path, text).filter(({ source }) => /^src\/core\/(?!common|protocol)/.test(source));
    for (const role of parseFile(path, text).roles) {
      const features = found.get(role) ?? [];
      if (!ofCore.some(({ name }) => name === role) || features.includes(feature)) continue;
      found.set(role, [...features, feature]);
    }
  }
  return found;
}

/** Ways into the core that stand in no list. */
export function findWaysIn(files: FileMap): Violation[] {
  const known = Object.values(WAYS_IN).flat();
  return [...rolesOfFeatures(files)]
    .filter(([role]) => !known.includes(role))
    .map(([role, [feature]]) => ({
      path: `src/${feature}`,
      line: 1,
      message: `acts by "${role}", which is none of the ways in of test/architecture/features.ts`,
    }));
}
