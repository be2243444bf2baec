import type { McpSessionEvent } from 'nestjs-mcp-streamable';
import { afterAll, afterEach, vi } from 'vitest';
import { TestApp, type Adapter, type TestAppOptions } from './app.js';

/** Starts apps; each is closed after its test, and must have left nothing behind. */
export function runningApps(
  adapter: Adapter,
  defaults: Partial<TestAppOptions> = {},
): (options?: Partial<TestAppOptions>) => Promise<TestApp> {
  const started: TestApp[] = [];
  afterEach(async () => {
    for (const app of started.splice(0)) await app.close();
  });
  return async (options = {}) => {
    const app = await TestApp.start({ adapter, ...defaults, ...options });
    started.push(app);
    return app;
  };
}

/**
 * One app for the tests of a block, started by the first that asks for it: starting takes longer than most tests. After each
 * test nothing may be left of it, after the last one nothing of the app.
 */
export function sharedApp(start: () => Promise<TestApp>): () => Promise<TestApp> {
  let app: Promise<TestApp> | undefined;
  afterEach(async () => (await app)?.expectNothingLeft());
  afterAll(async () => (await app)?.stop());
  return () => (app ??= start());
}

/** Everything that happens to the sessions of an app from now on; not that its nodes follow each other. */
export function recordedEvents(app: TestApp): McpSessionEvent[] {
  const events: McpSessionEvent[] = [];
  for (const { service } of app.nodes) {
    service.events$.subscribe((event) => {
      const follows = event.type === 'rebuilt' || (event.type === 'closed' && event.reason === 'ended-elsewhere');
      if (app.nodes.length === 1 || !follows) events.push(event);
    });
  }
  return events;
}

/** Repeats an assertion until it holds; for what no event tells of. */
export function eventually(assertion: () => void | Promise<void>): Promise<void> {
  return vi.waitFor(assertion, { timeout: 10_000, interval: 5 });
}
