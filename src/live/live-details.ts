import { taskOptionOf } from '../core/handlers/decorators/task-options.js';
import type { McpSession } from '../core/sessions/running/mcp-session.js';
import type { McpSessionDetails } from '../core/sessions/running/session-state.js';
import type { ListedKind, McpEndpointHost, ToolExaminer } from '../core/plugins/mcp-plugin.js';
import { tokensOfJson } from '../core/protocol/values.js';
import { cut } from './live-events.js';
import type { Payloads } from './payloads.js';
import type { ToolOfCallers, ToolsPerCaller } from './tools-per-caller.js';
import { BOUNDS_MS, type ToolStatistics } from './statistics.js';

/* What the page shows of one handler or session that its reader has opened. */

const MOST_CAPABILITIES = 4_096;

const LISTED: readonly string[] = ['tool', 'resource', 'template', 'prompt'] satisfies ListedKind[];

export function isListed(kind: string): kind is ListedKind {
  return LISTED.includes(kind);
}

interface Sources {
  readonly host: Pick<McpEndpointHost, 'handlers' | 'guards'>;
  readonly perCaller: Pick<ToolsPerCaller, 'get'>;
  readonly statistics: ToolStatistics;
  /** Examines the tools of the endpoint. */
  readonly findings: ToolExaminer['findings'];
}

/** @returns `undefined` if the endpoint has no such handler */
export async function handlerDetails(
  kind: ListedKind,
  key: string,
  { host, perCaller, statistics, findings }: Sources,
): Promise<object | undefined> {
  const own = host.handlers.get(kind, key);
  const ofCallers = own || kind !== 'tool' ? undefined : perCaller.get(key);
  const entry = own ?? ofCallers?.entry;
  const histogram = kind === 'tool' ? statistics.histogram(key) : undefined;
  if (!entry) return histogram && { histogram: { bounds: BOUNDS_MS, counts: histogram } };
  const { wire, origin } = entry;
  return {
    wire,
    origin,
    guards: entry.guards(),
    scopes: entry.scopes(),
    endpointGuards: host.guards,
    tokens: tokensOfJson(wire),
    ...(ofCallers && { listed: listedFor(ofCallers) }),
    ...(kind === 'tool' && { advice: (await findings()).filter(({ tool }) => tool === key) }),
    ...(entry.kind === 'tool' && { task: taskSupportOf(taskOptionOf(entry)) }),
    ...(histogram && { histogram: { bounds: BOUNDS_MS, counts: histogram } }),
  };
}

/** Tells who lists a tool, for whom, and whether others have another one of its name. */
function listedFor({ entry, principals, more, varies }: ToolOfCallers): object {
  const callers = Array.from(principals, (principal) => (principal === null ? null : cut(principal)));
  return { by: entry.source ?? entry.origin, callers, more, varies };
}

/** Returns whether clients need support for tasks to call a tool with this option `task`; `undefined`: it has no tasks. */
function taskSupportOf(task: unknown): 'optional' | 'required' | undefined {
  if (task === undefined) return undefined;
  const { support = task } = task as { support?: unknown };
  return support === 'required' ? 'required' : 'optional';
}

/**
 * @param live the session on this node, if it is here
 * @param payloads with them, the URIs of subscriptions are shown
 * @throws (rejects) a fault of the log
 */
export async function sessionDetails(
  { clientCapabilities, subscriptions, logLevel, used }: McpSessionDetails,
  live: McpSession | undefined,
  payloads: Pick<Payloads, 'text'> | undefined,
): Promise<object> {
  const capabilities = JSON.stringify(clientCapabilities);
  return {
    capabilities: capabilities.length > MOST_CAPABILITIES ? { cut: cut(capabilities) } : clientCapabilities,
    logLevel,
    used,
    subscriptions: subscriptions.length,
    ...(payloads && { uris: subscriptions.slice(0, 50).map((uri) => cut(payloads.text(uri), 200)) }),
    ...(live && { streams: (await live.streamDetails()).slice(0, 50) }),
  };
}
