import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { McpSessionService } from 'nestjs-mcp-streamable';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { concat, concatMap, defer, finalize, ignoreElements, type Observable, of, Subject } from 'rxjs';
import { expect } from 'vitest';
import { AppModule } from '../../examples/quickstart/app.module.js';
import { DocsIndex, type IndexStep } from '../../examples/quickstart/docs-index.js';
import { DOCS_DIR } from '../../examples/quickstart/docs.service.js';
import { MCP_OPTIONS } from '../../src/core/common/options.js';
import type { Adapter } from '../support/adapters.js';
import { TrackedClock } from '../support/tracked-clock.js';

export { ADAPTERS, ONE_ADAPTER } from '../support/adapters.js';

export const FILES = {
  'README.md': '# Read me\n\nA needle in the readme.\n',
  'docs/guide.md': '# Guide\n\nNothing here.\nNeedle at the end.\n',
  'notes.md': 'No hay.\n',
};

/** The index of the quickstart, whose searches can be held up. */
class HeldIndex extends DocsIndex {
  /** Emits when the first document of a search is done and the search is about to be held. */
  readonly held$ = new Subject<void>();
  /** Emits when a search is over, or nobody is subscribed to it any more. */
  readonly left$ = new Subject<void>();
  /** Set it, and every search waits for it after its first document. */
  hold: Promise<void> | undefined;

  override update(): Observable<IndexStep> {
    return super.update().pipe(
      concatMap((step) => (step.done === 1 && this.hold ? concat(of(step), this.#held$(this.hold)) : of(step))),
      finalize(() => this.left$.next()),
    );
  }

  #held$(hold: Promise<void>): Observable<never> {
    return defer(() => {
      this.held$.next();
      return hold;
    }).pipe(ignoreElements());
  }
}

const NOTHING = {
  sessions: 0,
  live: 0,
  inFlight: 0,
  outbound: 0,
  streams: 0,
  readers: 0,
  subscriptions: 0,
  tasks: 0,
  heldBytes: 0,
  logs: 0,
  loggedStreams: 0,
  events: 0,
  bytes: 0,
};

/** The quickstart's own module, on a folder of its own and in this process. */
export class QuickstartApp {
  private constructor(
    readonly app: INestApplication,
    readonly url: URL,
    /** The folder that is served. */
    readonly folder: string,
    readonly clock: TrackedClock,
  ) {}

  static async start(adapter: Adapter): Promise<QuickstartApp> {
    const folder = await mkdtemp(join(tmpdir(), 'quickstart-'));
    await mkdir(join(folder, 'docs'));
    for (const [name, content] of Object.entries(FILES)) await writeFile(join(folder, name), content);
    const clock = new TrackedClock();
    const testing = await Test.createTestingModule({ imports: [AppModule] })
      .overrideProvider(DOCS_DIR)
      .useValue(folder)
      .overrideProvider(DocsIndex)
      .useClass(HeldIndex)
      .overrideProvider(McpClock)
      .useValue(clock)
      .compile();
    // As its main.ts does: otherwise the end would wait for connections that the global fetch keeps.
    const forceCloseConnections = true;
    const app =
      adapter === 'express'
        ? testing.createNestApplication(new ExpressAdapter(), { forceCloseConnections })
        : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter({ forceCloseConnections }));
    // Official clients wait as long as they are told before they come back; the quickstart has the default, three seconds.
    Object.assign(app.get(MCP_OPTIONS, { strict: false }), { retryMs: 50 });
    await app.listen(0, '127.0.0.1');
    return new QuickstartApp(app, new URL('/mcp', await app.getUrl()), folder, clock);
  }

  get index(): HeldIndex {
    return this.app.get(DocsIndex, { strict: false });
  }
  get sessions(): McpSessionService {
    return this.app.get(McpSessionService, { strict: false });
  }

  write(name: string, content: string): Promise<void> {
    return writeFile(join(this.folder, name), content);
  }
  remove(name: string): Promise<void> {
    return rm(join(this.folder, name));
  }

  /** Expects that nothing at all is left of the sessions that were. */
  async expectNothingLeft(): Promise<void> {
    // But for the one that looks for expired sessions.
    const timers = (): number => this.clock.pending - 1;
    const state = async (): Promise<object> => ({ ...(await this.sessions.counts()), timers: timers() });
    await expect.poll(state).toEqual({ ...NOTHING, timers: 0 });
  }

  async close(): Promise<void> {
    await this.app.close();
    await rm(this.folder, { recursive: true });
  }
}
