import type { Provider } from '@nestjs/common';
import { Clock } from '../common/clock.js';
import { MCP_OPTIONS } from '../common/option-checks.js';
import { ENDPOINT_NAME } from '../context/endpoint-name.js';
import { replaceablePart } from '../context/replaceable-part.js';
import { CallObserver } from '../exchange/call-observer.js';
import { RESPONSE_OPTIONS, resolveResponseOptions } from '../exchange/response.options.js';
import { ChangeFeed } from './cluster/change-feed.js';
import { ClusterListener } from './cluster/cluster-listener.js';
import { InMemorySessionStore } from './store/in-memory-session-store.js';
import { LiveSessions } from './live/live-sessions.js';
import { Reaper } from './cluster/reaper.js';
import { FaultLog, SessionRuntime } from './live/session-runtime.js';
import { McpSessionStore } from './store/session-store.js';
import { resolveSessionOptions, SESSION_OPTIONS } from './session.options.js';

export const sessionProviders: Provider[] = [
  { provide: SESSION_OPTIONS, useFactory: resolveSessionOptions, inject: [MCP_OPTIONS, ENDPOINT_NAME] },
  { provide: RESPONSE_OPTIONS, useFactory: resolveResponseOptions, inject: [MCP_OPTIONS] },
  replaceablePart<McpSessionStore, [Clock]>(
    McpSessionStore,
    'sessionStore',
    ['create', 'get', 'patch', 'touch', 'delete', 'claimExpired', 'list', 'count'],
    (clock) => new InMemorySessionStore(clock),
    [Clock],
  ),
  CallObserver,
  SessionRuntime,
  LiveSessions,
  ClusterListener,
  Reaper,
  ChangeFeed,
  FaultLog,
];
