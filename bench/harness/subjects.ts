import { fileURLToPath } from 'node:url';

/** Who is measured, and what each of them can do. */

export type WorkName =
  | 'call'
  | 'modern-call'
  | 'progress'
  | 'lifecycle'
  | 'session-memory'
  | 'stream-memory'
  | 'notify'
  | 'replay'
  | 'growth'
  | 'list'
  | 'nodes'
  | 'jwt'
  | 'plugins'
  | 'start';

/** Paths. */
export interface Beginning {
  readonly initialize: string;
  readonly initialized: string;
}

export interface Subject {
  readonly name: string;
  readonly title: string;
  readonly adapter: 'express' | 'fastify';
  readonly file: string;
  /** Where it answers to 2026-07-28, if not at `/mcp`. */
  readonly modernPath?: string;
  /** Where it takes the two requests that begin a session, if not at `/mcp`. */
  readonly beginning?: Beginning;
  /** What it cannot do, and why. */
  readonly cannot: Partial<Record<WorkName, string>>;
}

/** Ours. */
export const OURS = at('../server.js');
export const BARE_ROUTE = at('../bare.js');
const sdkRoute = at('../sdk-route.js');
const peer = (name: string): string => at(`../../../bench/peers/build/peers/${name}.js`);

export const START = at('../start/server.js');

const NO_SESSIONS = 'a bare route has no sessions';
const BARE: Subject['cannot'] = {
  progress: 'a bare route reports nothing',
  'session-memory': NO_SESSIONS,
  replay: 'a bare route keeps no events',
  growth: NO_SESSIONS,
};
/** A route for each request, as none of them looks into a body. */
const BARE_BEGINNING: Beginning = { initialize: '/mcp/initialize', initialized: '/mcp/initialized' };
const ONLY_CALLS = 'the SDK in a route serves calls, and no more';
const SDK_ROUTE: Subject['cannot'] = {
  'modern-call': ONLY_CALLS,
  lifecycle: ONLY_CALLS,
  'session-memory': ONLY_CALLS,
  'stream-memory': ONLY_CALLS,
  notify: ONLY_CALLS,
  replay: ONLY_CALLS,
  growth: ONLY_CALLS,
  list: ONLY_CALLS,
};
const MCP_NEST: Subject['cannot'] = {
  progress: 'MCP-Nest sends the progress of a session to its GET stream, not with the POST that asked for it',
  notify: 'MCP-Nest has no way to notify sessions',
  replay: 'MCP-Nest has no event store',
};

/** The servers of others. */
export const PEERS: readonly Subject[] = [
  {
    name: 'mcp-nest-express',
    title: 'MCP-Nest, Express',
    adapter: 'express',
    file: peer('mcp-nest'),
    cannot: MCP_NEST,
  },
  {
    name: 'mcp-nest-fastify',
    title: 'MCP-Nest, Fastify',
    adapter: 'fastify',
    file: peer('mcp-nest'),
    cannot: { ...MCP_NEST, growth: 'how MCP-Nest grows is measured on Express' },
  },
  {
    name: 'sdk-v1',
    title: 'SDK v1, Express',
    adapter: 'express',
    file: peer('sdk-v1'),
    cannot: { 'modern-call': 'SDK v1 does not speak 2026-07-28' },
  },
  {
    name: 'sdk-v2',
    title: 'SDK v2, Express',
    adapter: 'express',
    file: peer('sdk-v2'),
    modernPath: '/modern',
    cannot: {},
  },
];

export const SUBJECTS: readonly Subject[] = [
  { name: 'ours-express', title: 'ours, Express', adapter: 'express', file: OURS, cannot: {} },
  { name: 'ours-fastify', title: 'ours, Fastify', adapter: 'fastify', file: OURS, cannot: {} },
  {
    name: 'bare-express',
    title: 'bare route, Express',
    adapter: 'express',
    file: BARE_ROUTE,
    beginning: BARE_BEGINNING,
    cannot: BARE,
  },
  {
    name: 'bare-fastify',
    title: 'bare route, Fastify',
    adapter: 'fastify',
    file: BARE_ROUTE,
    beginning: BARE_BEGINNING,
    cannot: BARE,
  },
  {
    name: 'sdk-route-express',
    title: 'SDK in a route, Express',
    adapter: 'express',
    file: sdkRoute,
    cannot: SDK_ROUTE,
  },
  {
    name: 'sdk-route-fastify',
    title: 'SDK in a route, Fastify',
    adapter: 'fastify',
    file: sdkRoute,
    cannot: SDK_ROUTE,
  },
  ...PEERS,
];

/** What a work puts side by side instead of subjects, all on Fastify. */
export interface Variant {
  readonly name: string;
  readonly title: string;
}

/** Of the work `nodes`, all of ours. */
export const NODES = [
  { name: 'memory', title: 'one node, in memory', count: 1, shared: false },
  { name: 'redis', title: 'one node, Redis', count: 1, shared: true },
  { name: 'two-nodes', title: 'two nodes, Redis', count: 2, shared: true },
] as const;

/** What the work `jwt` puts side by side, all on Fastify: what a token adds, to ours and to the bare route. */
export const TOKENS = [
  { name: 'ours', title: 'ours', file: OURS, verifies: false },
  { name: 'ours-jwt', title: 'ours, with a JWT', file: OURS, verifies: true },
  { name: 'bare', title: 'bare route', file: BARE_ROUTE, verifies: false },
  { name: 'bare-jwt', title: 'bare route, with a guard that calls jose', file: BARE_ROUTE, verifies: true },
] as const;

/** Of the work `plugins`, all of ours: what a call meets on its way. */
export const PLUGINS = [
  { name: 'plain', title: 'none' },
  { name: 'audit', title: 'audit, required, with an empty sink' },
  { name: 'limits', title: 'limits' },
  { name: 'idempotency', title: 'idempotency, in memory' },
  { name: 'otel', title: 'OpenTelemetry without an SDK' },
  { name: 'otel-sdk', title: 'OpenTelemetry with its SDK' },
  { name: 'live', title: 'live page that nobody reads' },
  { name: 'all', title: 'all of them' },
] as const;

/** Of the work `start`: an app with as many routes, and ours. */
export const STARTS = [
  { name: 'bare', title: 'routes' },
  { name: 'ours', title: 'ours' },
] as const;

/** The first of each is what the others are compared with. */
export const VARIANTS: Partial<Record<WorkName, readonly Variant[]>> = {
  nodes: NODES,
  plugins: PLUGINS,
  start: STARTS,
};

/** Whether it keeps sessions: only such a server can have idle ones. */
export function hasSessions({ cannot }: Subject): boolean {
  return cannot['session-memory'] === undefined;
}

function at(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}
