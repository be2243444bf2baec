/**
 * # What a load needs
 *
 * A load is a number of operations a second, and of things that are there. Each has measured coefficients: CPU time of the nodes
 * and of Redis, bytes, and commands of Redis by the kind of key. Sums of them say how many nodes and masters of Redis a load needs,
 * and which key takes the largest share of the commands.
 */

/** Where a command goes: keys of a session, of the index of sessions, of a node, of the bus, or none (pings). */
export const KINDS = ['session', 'index', 'node', 'bus', 'none'] as const;
export type Kind = (typeof KINDS)[number];
export type ByKind = Readonly<Record<Kind, number>>;

/** What is done, or what is there for a minute. */
export const OPERATIONS = [
  'session',
  'call',
  'activity',
  'arrival',
  'streamed call',
  'event',
  'stream',
  'notification',
  'distant notification',
  'node minute',
] as const;
export type Operation = (typeof OPERATIONS)[number];

/** What one operation costs. CPU time in microseconds. */
export interface Cost {
  readonly node: number;
  readonly redis: number;
  /** Bytes that Redis receives and sends. */
  readonly bytes: number;
  readonly commands: ByKind;
}

export interface Coefficients {
  /** On Fastify, with sessions in Redis. */
  readonly costs: Readonly<Record<Operation, Cost>>;
  /** CPU time of a node on Express, beside Fastify. */
  readonly express: number;
  /** Bytes of a node: heap and buffers. */
  readonly memory: { readonly session: number; readonly stream: number };
  /** Bytes in Redis. */
  readonly stored: { readonly session: number; readonly event: number };
}

export interface Load {
  /** That are there. */
  readonly sessions: number;
  readonly sessionMinutes: number;
  readonly callsPerSecond: number;
  /** CPU time of the app's handler, in microseconds. */
  readonly handlerMicros: number;
  /** Of the calls, how many answer as a stream, and the events of each. */
  readonly streamed: number;
  readonly events: number;
  /** Of the sessions, how many have an open GET stream. */
  readonly streams: number;
  readonly notificationsPerSecond: number;
  /** Whether the proxy sends all requests of a session to one node. */
  readonly sticky: boolean;
  readonly adapter: 'express' | 'fastify';
  /** `sessionSlots`: among so many the index of sessions is spread. */
  readonly slots: number;
}

/** How much of a core may be used, so that there is room for peaks and for a node that is gone. */
const USED = 0.6;
/** A session that is used notes that so often at most: ten times in `idleTimeoutMs`, half an hour. */
const ACTIVITIES_PER_SECOND = 10 / 1_800;
/** Events of a finished call stay in Redis for so many seconds. */
const KEPT_SECONDS = 300;
/** More nodes than that do not settle: each further node costs as much as it brings. */
const MOST_NODES = 10_000;

export interface Plan {
  readonly nodes: number;
  /** Cores that the nodes and Redis use. */
  readonly nodeCores: number;
  readonly redisCores: number;
  readonly masters: number;
  readonly commandsPerSecond: number;
  readonly commands: ByKind;
  /** Bytes a second through Redis. */
  readonly traffic: number;
  /** Bytes of each node, and of Redis. */
  readonly nodeMemory: number;
  readonly redisMemory: number;
  /** The key that gets most commands, and its share. */
  readonly hottest: { readonly kind: Kind; readonly share: number };
  /** How many times this load each part can bear, if it alone is full. */
  readonly bears: Readonly<Record<'the index of sessions' | 'the bus' | 'the log of a node', number>>;
}

/** How often each operation happens in a second, on so many nodes. */
export function rates(load: Load, nodes: number): Record<Operation, number> {
  const { sessions, callsPerSecond, streamed, events, notificationsPerSecond } = load;
  const begun = sessions / (load.sessionMinutes * 60);
  const calls = callsPerSecond * (1 - streamed);
  const streaming = callsPerSecond * streamed;
  // Of many nodes, each meets the session, if it has calls enough.
  const met = load.sticky ? 1 : Math.min(nodes, Math.max(1, (callsPerSecond * load.sessionMinutes * 60) / sessions));
  const active = Math.min(callsPerSecond / sessions, met * ACTIVITIES_PER_SECOND);
  const elsewhere = load.sticky || nodes === 1 ? 0 : 1 - 1 / nodes;
  return {
    session: begun,
    call: calls,
    activity: sessions * active,
    arrival: begun * (met - 1),
    'streamed call': streaming,
    event: streaming * events,
    stream: begun * load.streams,
    notification: notificationsPerSecond * (1 - elsewhere),
    'distant notification': notificationsPerSecond * elsewhere,
    'node minute': nodes / 60,
  };
}

/** What operations cost together. */
export function summed(costs: Coefficients['costs'], counts: Partial<Record<Operation, number>>): Cost {
  const all = OPERATIONS.map((operation) => ({ count: counts[operation] ?? 0, cost: costs[operation] }));
  const sum = (of: (cost: Cost) => number): number =>
    all.reduce((total, { count, cost }) => total + count * of(cost), 0);
  return {
    node: sum(({ node }) => node),
    redis: sum(({ redis }) => redis),
    bytes: sum(({ bytes }) => bytes),
    commands: byKind((kind) => sum(({ commands }) => commands[kind])),
  };
}

export function byKind(of: (kind: Kind) => number): ByKind {
  return Object.fromEntries(KINDS.map((kind) => [kind, of(kind)])) as Record<Kind, number>;
}

/** Each node looks through all slots of the index at each sweep; one of them is in its minute already. */
function sweepsOf(costs: Coefficients['costs'], nodes: number, slots: number): Cost {
  const count = (nodes / 60) * costs['node minute'].commands.index * (slots - 1);
  // The activity of a session is two scripts, one of them on the index.
  const { node, redis, bytes } = costs.activity;
  const commands = byKind((kind) => (kind === 'index' ? count : 0));
  return { node: (count * node) / 2, redis: (count * redis) / 2, bytes: (count * bytes) / 2, commands };
}

/** What a second of the load costs on so many nodes. */
function secondOf(load: Load, { costs }: Coefficients, nodes: number): Cost {
  const [one, other] = [summed(costs, rates(load, nodes)), sweepsOf(costs, nodes, load.slots)];
  return {
    node: one.node + other.node,
    redis: one.redis + other.redis,
    bytes: one.bytes + other.bytes,
    commands: byKind((kind) => one.commands[kind] + other.commands[kind]),
  };
}

/** @returns the fewest nodes that bear the load, and what they and Redis need for it */
export function planOf(load: Load, coefficients: Coefficients): Plan {
  let nodes = 1;
  // More nodes have more in common, which each of them does.
  for (; nodes < MOST_NODES; nodes++) if (coresOf(load, coefficients, nodes) <= USED * nodes) break;
  const counts = rates(load, nodes);
  const { redis, bytes, commands } = secondOf(load, coefficients, nodes);
  const total = KINDS.reduce((sum, kind) => sum + commands[kind], 0);
  const keys: ByKind = { session: load.sessions, index: load.slots, node: nodes, bus: 1, none: Infinity };
  const shares = KINDS.map((kind) => ({ kind, share: commands[kind] / keys[kind] / total }));
  const copies = load.sticky ? 1 : Math.min(nodes, 1 + counts.arrival / counts.session);
  const { memory, stored } = coefficients;
  const redisCores = redis / 1e6;
  // One key is served by one core; what is left of it decides.
  const bears = (kind: Kind): number => USED / ((redisCores * commands[kind]) / total / keys[kind]);
  return {
    nodes,
    nodeCores: coresOf(load, coefficients, nodes),
    redisCores,
    masters: Math.max(1, Math.ceil(redisCores / USED)),
    commandsPerSecond: total,
    commands,
    traffic: bytes,
    nodeMemory: (load.sessions * (copies * memory.session + load.streams * memory.stream)) / nodes,
    redisMemory: load.sessions * stored.session + counts.event * KEPT_SECONDS * stored.event,
    hottest: shares.toSorted((a, b) => b.share - a.share)[0]!,
    bears: { 'the index of sessions': bears('index'), 'the bus': bears('bus'), 'the log of a node': bears('node') },
  };
}

/** Cores that so many nodes need for it, handlers included. */
function coresOf(load: Load, coefficients: Coefficients, nodes: number): number {
  const own = secondOf(load, coefficients, nodes).node * (load.adapter === 'express' ? coefficients.express : 1);
  return (own + load.callsPerSecond * load.handlerMicros) / 1e6;
}
