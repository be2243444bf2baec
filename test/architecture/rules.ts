import { posix } from 'node:path';
import { parseFile, type ModuleReference } from './imports.js';

/**
 * # What the rooms of `src` may import
 *
 * `src` is a row of rooms; each imports only rooms before it. This file has the rules as data, and finds what breaks them. It is a
 * pure function over a map of files, so that the test can add a violation and see that it is found.
 */

/** Path below the repository, with `/`, such as `src/core/protocol/accept.ts` → its text. */
export type FileMap = ReadonlyMap<string, string>;

/** Something that stands where it must not. */
export interface Violation {
  readonly path: string;
  readonly line: number;
  readonly message: string;
}

/** Names of the packages that are installed with this one: dependencies and peers. */
type DeclaredPackages = ReadonlySet<string>;

/**
 * What each room of `src/core` may import, besides itself; `state` is a chamber of `questions`.
 *
 * The order of the keys is the order of the rooms. `common` (time, ids, small helpers) and `protocol` (what goes over the wire)
 * stand on nothing; `handlers` is narrower than its place: it knows one call and the protocol, not who carries it.
 */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  common: [],
  protocol: [],
  calls: ['common', 'protocol'],
  plugins: ['common', 'protocol', 'calls'],
  log: ['common', 'protocol', 'calls'],
  sessions: ['common', 'protocol', 'calls', 'log'],
  nodes: ['common', 'protocol', 'calls', 'plugins', 'log', 'sessions'],
  state: ['common', 'protocol', 'calls'],
  handlers: ['common', 'protocol', 'calls', 'plugins'],
  routes: ['common', 'protocol', 'calls', 'handlers'],
  questions: ['common', 'protocol', 'calls', 'handlers'],
  methods: ['common', 'protocol', 'calls', 'plugins', 'sessions', 'state', 'handlers', 'questions'],
  eras: ['common', 'protocol', 'calls', 'plugins', 'log', 'sessions', 'nodes', 'handlers', 'questions', 'methods'],
  http: [
    'common',
    'protocol',
    'calls',
    'plugins',
    'log',
    'sessions',
    'nodes',
    'handlers',
    'questions',
    'methods',
    'eras',
  ],
};
const CHAMBERS: readonly string[] = ['state'];

/** The contract of the message bus, and who knows it: what implements, tests or passes on one. */
const BUS = 'src/core/nodes/message-bus.ts';
const OF_THE_BUS: readonly string[] = ['redis', 'stores', 'testing', '(root)'];

/** Where the SDK may be loaded from: its servers in an entry of their own, its schema tools through one door. */
const SDK_SERVER = '@modelcontextprotocol/server';
const isDoorToSdk = (path: string): boolean =>
  path.startsWith('src/server/') || ['src/core/protocol/sdk-tools.ts', 'src/skills/sdk-skills.ts'].includes(path);

/** The files that lie directly in `src`: the module, its definition, the public API. They compose all the rooms. */
export const ROOT = '(root)';

/** Folders that the files of `src` itself compose: the module loads them where an endpoint needs them. */
const PARTS: readonly string[] = [
  'auth',
  'card',
  'catalogue',
  'dev',
  'doctor',
  'effects',
  'limits',
  'server',
  'switches',
];

/** What the other folders of `src` may import. `contracts`: files that {@link isContract} accepts. */
const ENTRIES: Readonly<Record<string, { readonly rooms: readonly string[]; readonly contracts: boolean }>> = {
  redis: { rooms: ['common', 'protocol'], contracts: true },
  stores: { rooms: ['common', 'nodes', 'state', 'log', 'sessions', ROOT], contracts: false },
  // The SDK's classes, from the copy that the module uses: the main entry does not load them.
  server: { rooms: ['common', 'protocol', 'calls', 'log', 'sessions', 'nodes'], contracts: false },
  live: {
    rooms: ['common', 'protocol', 'calls', 'nodes', 'log', 'sessions', 'plugins', 'handlers', 'http'],
    contracts: false,
  },
  catalogue: { rooms: ['common', 'protocol', 'calls', 'plugins', 'handlers'], contracts: false },
  doctor: { rooms: ['common', 'protocol', 'calls', 'plugins', 'handlers', 'http'], contracts: false },
  card: { rooms: ['common', 'protocol', 'calls', 'plugins', 'http'], contracts: false },
  dev: { rooms: ['common', 'protocol', 'calls', 'plugins', 'log', 'sessions', 'state'], contracts: false },
  limits: { rooms: ['common', 'protocol', 'calls', 'plugins', 'handlers'], contracts: false },
  switches: {
    rooms: ['common', 'protocol', 'calls', 'plugins', 'sessions', 'state', 'handlers'],
    contracts: false,
  },
  effects: {
    rooms: ['common', 'protocol', 'calls', 'plugins', 'sessions', 'state', 'handlers', 'questions'],
    contracts: false,
  },
  stdio: { rooms: ['common', 'protocol', 'calls', 'plugins', 'sessions', 'eras', 'http'], contracts: false },
  standalone: {
    rooms: ['common', 'protocol', 'calls', 'nodes', 'log', 'sessions', 'server', 'eras', 'http'],
    contracts: false,
  },
  client: { rooms: ['common', 'protocol', 'calls'], contracts: false },
  audit: { rooms: ['common', 'protocol', 'calls', 'plugins'], contracts: false },
  prometheus: { rooms: ['common', 'protocol', 'calls', 'plugins', 'sessions'], contracts: false },
  // What is written without the module: it loads neither that nor the SDK.
  decorators: { rooms: ['common', 'protocol', 'calls', 'handlers', 'catalogue'], contracts: false },
  otel: { rooms: ['common', 'protocol', 'calls'], contracts: false },
  // An extension of the protocol and a plugin: adds its methods, and makes calls tasks.
  tasks: { rooms: ['common', 'protocol', 'calls', 'plugins', 'handlers', 'stores', 'methods'], contracts: false },
  // Another extension: its handlers are entries of the table, their files resources of a template.
  skills: { rooms: ['common', 'protocol', 'calls', 'plugins', 'sessions', 'handlers', 'methods'], contracts: false },
  // The testing kit finds endpoints by their host, counts what they hold, and follows tasks as our client does.
  testing: {
    rooms: ['common', 'protocol', 'plugins', 'methods', 'eras', 'http', 'doctor', 'client', 'stores', ROOT],
    contracts: true,
  },
  auth: { rooms: ['common', 'protocol', 'calls', 'plugins', 'handlers', 'http'], contracts: false },
};

export const isSpec = (path: string): boolean => path.endsWith('.spec.ts');

/** The rooms that a specification may import, wherever it stands (one of sessions has other nodes); and what all tests share. */
const OF_SPECS: readonly string[] = ['common', 'testing', 'log', 'nodes'];
const SHARED_BY_TESTS = 'test/support/';

/** The interface of a replaceable part, or its errors; not one of its implementations. */
const isContract = (path: string): boolean =>
  /\/(?:(?:[\w-]+-)?store|message-bus|[\w.-]+\.errors)\.ts$/.test(path) && !path.includes('memory');

const isNest = (name: string): boolean => name.startsWith('@nestjs/') || name === 'reflect-metadata';

const isAdapter = (name: string): boolean =>
  /^(?:express|fastify|body-parser|@fastify\/.+|@nestjs\/platform-.+)$/.test(name);

/** Outside of what semantic versioning covers, or missing in a Nest that we support. */
const isInternal = (specifier: string): boolean =>
  /^@modelcontextprotocol\/core\/internal|^@nestjs\/[^/]+\/internal/.test(specifier);

/** `src/core/protocol/accept.ts` → `protocol`; `src/redis/log/x.ts` → `redis`; `src/index.ts` → {@link ROOT}. */
export function roomOf(path: string): string {
  const [, first, second, third] = path.split('/');
  if (second === undefined) return ROOT;
  if (first !== 'core') return first!;
  return CHAMBERS.includes(third!) ? third! : second;
}

/** `@nestjs/common/x` → `@nestjs/common`; `rxjs/operators` → `rxjs`. */
function packageOf(specifier: string): string {
  const [first, second] = specifier.split('/');
  return specifier.startsWith('@') ? `${first}/${second}` : first!;
}

/** All that breaks the rules of imports in `files`, which are the sources below `src/`. */
export function findImportViolations(files: FileMap, declared: DeclaredPackages): Violation[] {
  const violations: Violation[] = [];
  for (const [path, text] of files) {
    const { references, starExports } = parseFile(path, text);
    for (const reference of references) {
      const message = objectionTo(path, reference, declared);
      if (message) violations.push({ path, line: reference.line, message: `"${reference.specifier}": ${message}` });
    }
    if (posix.basename(path) === 'index.ts') {
      for (const line of starExports)
        violations.push({ path, line, message: 'an entry lists its names: no `export *`' });
    }
  }
  return violations;
}

function objectionTo(path: string, reference: ModuleReference, declared: DeclaredPackages): string | undefined {
  const { specifier } = reference;
  if (specifier.startsWith('.')) return objectionToFile(path, posix.join(posix.dirname(path), specifier));
  if (specifier.startsWith('node:')) return undefined;
  return objectionToPackage(path, reference, declared);
}

function objectionToFile(path: string, imported: string): string | undefined {
  if (isSpec(path) && imported.startsWith(SHARED_BY_TESTS)) return undefined;
  if (!imported.startsWith('src/')) return 'sources do not import what lies outside src';
  if (!/\.c?js$/.test(imported)) return 'a relative import ends in .js';
  const source = imported.replace(/js$/, 'ts');
  const [from, to] = [roomOf(path), roomOf(source)];
  if (from === to) return undefined;
  if (source === BUS && !isSpec(path) && !OF_THE_BUS.includes(from))
    return 'the bus is known to "nodes" alone: use BusNodes';
  if (isSpec(path) && OF_SPECS.includes(to)) return undefined;
  if (from === ROOT)
    return to in ROOMS || PARTS.includes(to)
      ? undefined
      : `the root composes rooms, and "${to}" is an entry of its own: if the module loads it, add it to PARTS of test/architecture/rules.ts`;
  const entry = ENTRIES[from];
  const allowed = entry?.rooms ?? ROOMS[from];
  if (!allowed)
    return `"${from}" is not a room: add it to ENTRIES of test/architecture/rules.ts, with the rooms that it imports`;
  if (allowed.includes(to) || (entry?.contracts && (to in ROOMS || to in ENTRIES) && isContract(source)))
    return undefined;
  return `"${from}" may import ${listOf(allowed, entry?.contracts)}, not "${to}"`;
}

function listOf(rooms: readonly string[], contracts = false): string {
  const names = [...rooms, ...(contracts ? ['contracts and errors'] : [])];
  return names.length === 0 ? 'no other room' : `only ${names.join(', ')}`;
}

function objectionToPackage(path: string, reference: ModuleReference, declared: DeclaredPackages): string | undefined {
  const { specifier, typeOnly } = reference;
  const room = roomOf(path);
  const name = packageOf(specifier);
  if (name === 'nestjs-mcp-streamable') return 'sources import each other by relative paths';
  if (isInternal(specifier)) return 'internals of other packages are off limits';
  if (isNest(name) && (room === 'protocol' || room === 'common')) return `"${room}" is pure: it knows nothing of Nest`;
  if (name === 'rxjs' && room === 'protocol') return '"protocol" is pure: it knows nothing of rxjs';
  if (isAdapter(name)) {
    if (room !== 'http') return 'nothing adapter-specific outside "http"';
    return typeOnly || isSpec(path) ? undefined : 'the app has one adapter, not both: import its types only';
  }
  // Types cost nothing, and name what goes over the wire. The client has an SDK of its own beside it.
  if (name === SDK_SERVER && !typeOnly && !isSpec(path) && !isDoorToSdk(path) && room !== 'client') {
    return 'the SDK is loaded by "server", its schema tools by src/core/protocol/sdk-tools.ts, and its skills by src/skills/sdk-skills.ts, alone';
  }
  if (!isSpec(path) && !declared.has(name))
    return 'neither a dependency nor a peer: an app that installs this package lacks it';
  return undefined;
}

/** A line of an event stream: a field, or a comment. In a regular expression it may stand behind `^`. */
const SSE_LINE = /^\^?(?:data: |(?:event|id|retry): \S*$)|\ndata:|^:\n/m;

/** SSE text outside of `http`, which alone writes it. A client reads it by `eventsource-parser`, and its tests write some. */
export function findSseText(files: FileMap): Violation[] {
  return [...files]
    .filter(([path]) => roomOf(path) !== 'http' && !(roomOf(path) === 'client' && isSpec(path)))
    .flatMap(([path, text]) =>
      parseFile(path, text)
        .texts.filter(({ text }) => SSE_LINE.test(text))
        .map(({ line }) => ({ path, line, message: 'SSE text: only "http" writes it, others take events' })),
    );
}

/** The most lines that a source file may have; a specification may be longer. */
export const MAX_LINES = 500;

/** Files of `src` that want to be two things. */
export function findLongFiles(files: FileMap): Violation[] {
  return [...files]
    .filter(([path]) => !isSpec(path))
    .map(([path, text]) => ({ path, line: text.trimEnd().split('\n').length }))
    .filter(({ line }) => line > MAX_LINES)
    .map((file) => ({ ...file, message: `${file.line} lines, more than ${MAX_LINES}: split it` }));
}

/** Why a file of `test` names files below `src`: all the others go by the public entries, as users do. */
const INSIDERS: Readonly<Record<string, string>> = {
  'test/support/sdk.ts': 'loads the tools of the SDK for specifications, which make no endpoint',
  'test/support/app.ts': 'counts what is left behind on several nodes, and responses that are paused',
  'test/support/redis-room.ts': 'replaces the clock of a backend and the time of Redis',
  'test/redis/formats.spec.ts': 'changes the numbers of formats in a build, and the time of Redis',
  'test/support/registry-parts.ts': 'makes a registry without an endpoint, for the specifications of src/core/handlers',
  'test/quickstart/quickstart-app.ts': 'shortens the retry delay of the example',
  'test/redis/stream-scheme.fuzz.spec.ts': 'reads the streams themselves, whose room may not import Redis',
  'test/handlers/extensions.spec.ts': 'declares an extension as the modules of this package do',
  'test/plugins/ends.spec.ts': 'makes plugins, which are not public yet',
  'test/plugins/rings.spec.ts': 'makes plugins, which are not public yet',
  'test/plugins/refresh.spec.ts': 'makes plugins, which are not public yet',
  'test/plugins/sources.spec.ts': 'the same',
  'test/plugins/servers.spec.ts': 'makes plugins, which are not public yet',
  'test/live/feed.spec.ts': 'decides when a reader of the page pauses',
};

/** Imports from `src` by tests that are none of its specifications, and files that are needlessly exempt from this rule. */
export function findInsideImports(files: FileMap, insiders: Readonly<Record<string, string>> = INSIDERS): Violation[] {
  const needless = new Set(Object.keys(insiders));
  const violations: Violation[] = [];
  for (const [path, text] of files) {
    // Parsing takes long: no other text can name a file below `src`.
    if (!text.includes('/src/')) continue;
    for (const { specifier, line } of parseFile(path, text).references) {
      const imported = posix.join(posix.dirname(path), specifier);
      if (!specifier.startsWith('.') || !imported.startsWith('src/')) continue;
      if (!Object.hasOwn(insiders, path)) {
        const message = `"${specifier}": tests use the public entries; a test of one class is a specification beside it`;
        violations.push({ path, line, message });
      }
      needless.delete(path);
    }
  }
  const message = 'imports nothing from src: take it off the list in test/architecture/rules.ts';
  return [...violations, ...Array.from(needless, (path) => ({ path, line: 1, message }))];
}

const FOCUSED = /\b(?:describe|suite|test|it|bench)(?:\.\w+)*\.only\b/;

/** Tests that switch all the others off. */
export function findFocusedTests(files: FileMap): Violation[] {
  return findLines(files, 'a focused test: the others do not run', () => (line) => FOCUSED.test(line));
}

/** Why a specification measures or waits for real time: all the others count events or turns, or have a clock of their own. */
const REAL_TIME: Readonly<Record<string, string>> = {
  'test/architecture/import-graph.spec.ts': 'shows what this rule finds',
  'test/redis/chaos.spec.ts': 'suspends processes, and writes how long calls took',
  'test/redis/outage.spec.ts': 'keeps Redis away by the clock of the machine',
  'test/redis/stream-scheme.fuzz.spec.ts': 'suspends Redis, whose clock decides',
  'test/browser/cors.spec.ts': 'waits in a page',
  'test/browser/live-screenshots.spec.ts': 'shows a page to people',
};

const MEASURES =
  /\bperformance\.now\(|\bDate\.now\(\) - |(?<!\.)\bsetTimeout\(resolve\b|\bsetTimeout\b.*'node:timers\/promises'/;

/** Specifications that a busy machine can fail, and those that are needlessly exempt from this rule. */
export function findRealTime(files: FileMap, exempt: Readonly<Record<string, string>> = REAL_TIME): Violation[] {
  const needless = new Set(Object.keys(exempt));
  const specs = new Map([...files].filter(([path]) => isSpec(path)));
  const found = findLines(
    specs,
    'real time: count events or turns, or use a ManualClock; `eventually` waits',
    () => (line) => MEASURES.test(line),
  );
  for (const { path } of found) needless.delete(path);
  const message = 'does without real time: take it off the list in test/architecture/rules.ts';
  const listed = Array.from(needless, (path) => ({ path, line: 1, message }));
  return [...found.filter(({ path }) => !Object.hasOwn(exempt, path)), ...listed];
}

/** Why a file of the core names tasks: everything else about them stands in `src/tasks`, behind the door for plugins. */
const NAMES_TASKS: Readonly<Record<string, string>> = {
  'src/core/calls/mcp-task.ts':
    '`ctx.task` and `ctx.startTask()` are methods of the context, which handlers get from the core',
  'src/core/calls/mcp-call.ts': 'the same: a call holds what serves them',
  'src/core/calls/mcp-context.ts': 'the same',
  'src/core/questions/handler-run.ts': 'the same: a run that asks its client starts no task',
  'src/core/calls/mcp-instrumentation.ts': 'the end of a task has its id, by which the audit joins both records',
  'src/core/calls/call-observer.ts': 'the same',
  'src/core/common/formats.ts': 'the formats of all that is stored stand in one list',
  'src/core/handlers/decorators/handler-options.ts': 'options of `@Tool()` are declared where the decorator is',
  'src/core/handlers/decorators/task-options.ts': 'the same',
  'src/core/sessions/mcp-session.service.ts':
    '`McpCounts.tasks` is a count of health checks; results of the old methods are checked by name',
  'src/core/plugins/rings.ts': 'the order of all features stands in one list',
  'src/core/http/mcp-incoming.ts': 'the wire: requests about tasks are served to callers that may begin no call (E14)',
  'src/core/methods/method.ts': 'the wire: a key of `_meta` up to 2025-11-25',
  'src/core/methods/tools.ts': 'the wire: a parameter of `tools/call` up to 2025-11-25',
  'src/core/protocol/era.ts': 'the same',
  'src/core/protocol/extensions.ts': 'the wire: the id of the extension, and which methods are about a task',
  'src/core/protocol/json-rpc.ts': 'the wire: a key of `_meta`',
  'src/core/protocol/methods.ts': 'the wire: names of methods, and what `Mcp-Name` mirrors',
  'src/core/protocol/notifications.ts': 'the wire: the notifications of an era',
};

/** A name of code, not `task` alone, which is also any work; the name of the option and of the ring. */
const TASK_NAME = /\b(?:\w+Tasks?\w*|[Tt]asks\w*|[Tt]ask\w+|\w*TASKS?\w*)\b|'task'|\btask: true/;
/** A line of a comment, or what follows code. */
const COMMENT = /^\s*\/?\*.*$|\/\/ .*$|\/\*\*? .*$/;

/** Files of the core that name tasks without a reason, and those that are needlessly on the list. */
export function findTaskNames(files: FileMap, listed: Readonly<Record<string, string>> = NAMES_TASKS): Violation[] {
  const needless = new Set(Object.keys(listed));
  const core = new Map([...files].filter(([path]) => path.startsWith('src/core/') && !isSpec(path)));
  const found = findLines(
    core,
    'names tasks: a feature acts by the door; or give the reason in test/architecture/rules.ts',
    () => (line) => TASK_NAME.test(line.replace(COMMENT, '')),
  );
  for (const { path } of found) needless.delete(path);
  const message = 'names no tasks: take it off the list in test/architecture/rules.ts';
  const left = Array.from(needless, (path) => ({ path, line: 1, message }));
  return [...found.filter(({ path }) => !Object.hasOwn(listed, path)), ...left];
}

const MUTABLE_EXPORT = /^export (?:let|var)\b/;

/** Exports that change after their module was loaded: the loader hooks of OpenTelemetry and others copy exports once. */
export function findMutableExports(files: FileMap): Violation[] {
  return findLines(files, 'an export that can change: export an object that holds the value', (text) => {
    const variables = new Set([...text.matchAll(/^(?:let|var) (\w+)/gm)].map(([, name]) => name));
    return (line) => {
      const listed = /^export \{(.*)\};/.exec(line)?.[1]?.match(/\w+(?: as \w+)?/g) ?? [];
      return MUTABLE_EXPORT.test(line) || listed.some((each) => variables.has(each.replace(/ .*/, '')));
    };
  });
}

/** Finds the lines of files that a rule forbids. */
function findLines(files: FileMap, message: string, ruleOf: (text: string) => (line: string) => boolean): Violation[] {
  return [...files].flatMap(([path, text]) => {
    const isForbidden = ruleOf(text);
    return text.split('\n').flatMap((line, index) => (isForbidden(line) ? [{ path, line: index + 1, message }] : []));
  });
}

/** One line for each, as editors and terminals link them. */
export function describeViolations(violations: readonly Violation[]): string {
  return violations.map(({ path, line, message }) => `${path}:${line}: ${message}`).join('\n');
}
