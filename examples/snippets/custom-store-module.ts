import { Module } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { type McpClock, InMemorySessionStore } from 'nestjs-mcp-streamable/stores';
import { AuditedSessionStore } from './audited-session-store.js';

// #region provide
/** Real time; the timers do not keep the process alive. */
const clock: McpClock = {
  now: Date.now,
  setTimeout: (task, ms) => setTimeout(task, ms).unref(),
  setInterval: (task, ms) => setInterval(task, ms).unref(),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
};

@Module({
  providers: [
    {
      provide: AuditedSessionStore,
      useFactory: () => new AuditedSessionStore(new InMemorySessionStore(clock)),
    },
  ],
  exports: [AuditedSessionStore],
})
export class StoresModule {}

@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      imports: [StoresModule],
      inject: [AuditedSessionStore],
      useFactory: (sessionStore: AuditedSessionStore) => ({
        serverInfo: { name: 'orders', version: '1.0.0' },
        sessionStore,
      }),
    }),
  ],
})
export class AppModule {}
// #endregion
