import type { Provider } from '@nestjs/common';
import { McpClock } from '../common/clock.js';
import { replaceablePart } from '../calls/replaceable-part.js';
import { CallObserver } from '../calls/call-observer.js';
import { InMemorySessionStore } from './store/in-memory-session-store.js';
import { LiveSessions } from './running/live-sessions.js';
import { FaultLog, SessionRuntime } from './session-runtime.js';
import { McpSessionStore, SESSION_STORE_METHODS } from './store/session-store.js';

export const sessionProviders: Provider[] = [
  replaceablePart<McpSessionStore, [McpClock]>(
    McpSessionStore,
    'sessionStore',
    SESSION_STORE_METHODS,
    (clock) => new InMemorySessionStore(clock),
    [McpClock],
  ),
  CallObserver,
  SessionRuntime,
  LiveSessions,
  FaultLog,
];
