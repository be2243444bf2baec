import {
  Inject,
  Injectable,
  type OnApplicationBootstrap,
  type OnModuleDestroy,
  type OnModuleInit,
} from '@nestjs/common';
import { ModuleRef } from '@nestjs/core';
import { Subscription } from 'rxjs';
import { McpClock } from '../core/common/clock.js';
import { McpOptionError } from '../core/common/options.js';
import { type Deferred, deferred, isThenable, within } from '../core/common/promises.js';
import { OperatorLogger } from '../core/calls/operator-log.js';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from '../core/plugins/mcp-plugin.js';
import type { McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import { retryLater, shown } from '../core/protocol/errors.js';
import { Redaction } from '../core/protocol/redaction.js';
import { assertSink, AUDIT_OPTIONS, decisionOf, namesOf, type ResolvedAuditOptions } from './audit.options.js';
import { EndpointAudit } from './endpoint-audit.js';
import type { McpAuditRecord, McpAuditSink } from './audit-record.js';

const logger = new OperatorLogger('McpAudit');

/** The sink may be writing so many records of refused requests. */
const MAX_REFUSALS = 100;

/** A line about lost records comes at most every so many milliseconds. */
const LOG_MS = 60_000;

/**
 * # What becomes of the records
 *
 *     written ──sink returned, or its promise resolved──▶ kept
 *        ├──sink threw or rejected, or `timeoutMs` passed──▶ failed (counted; a promise that is late keeps its place)
 *     not written: the sink has `maxPending` records already──▶ failed
 *
 * Invariant: `pending` is the number of promises of the sink that have not settled: at most `maxPending`, and 100 for records of
 * refused requests. Where there is no place for these, they are counted until there is.
 *
 * @publicApi
 */
@Injectable()
export class McpAuditService implements OnModuleInit, OnApplicationBootstrap, OnModuleDestroy {
  readonly #recording = new Subscription();
  readonly #redaction: Redaction<McpCallInfo>;
  #isAttached = false;
  readonly #writing = new Places();
  /** The records of refused requests have places of their own: any client can cause them. */
  readonly #writingRefusals = new Places();
  #late = 0;
  #failures = 0;
  #written = 0;
  #loggedAt = -Infinity;
  #sink: McpAuditSink | undefined;

  /** @internal */
  constructor(
    @Inject(AUDIT_OPTIONS) private readonly options: ResolvedAuditOptions,
    @Inject(ModuleRef) private readonly module: ModuleRef,
    @Inject(McpClock) private readonly clock: McpClock,
  ) {
    const rules = { ...options, names: namesOf(options), decide: decisionOf(options) };
    this.#redaction = new Redaction(rules, (error) => this.#report('The option "redact" failed', error));
  }

  /** Counts the records since the start that the sink has not taken: it failed, was late, or had too many already. */
  get failures(): number {
    return this.#failures;
  }

  /** Counts the records since the start that the sink has taken. */
  get written(): number {
    return this.#written;
  }

  /** Counts the records that the sink is writing. */
  get pending(): number {
    return this.#writing.taken + this.#writingRefusals.taken;
  }

  /** Records the calls of an endpoint until the module is destroyed. @internal */
  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    this.#isAttached = true;
    const audit = new EndpointAudit(endpoint, this.#redaction, this, this.options);
    this.#recording.add(audit.begin());
    return audit;
  }

  /** @throws McpOptionError when the sink cannot be used @internal */
  async onModuleInit(): Promise<void> {
    this.#sink = await this.#makeSink();
  }

  /** @throws McpOptionError when the app has no endpoint @internal */
  onApplicationBootstrap(): void {
    if (this.#isAttached) return;
    const text =
      'McpAuditModule needs an MCP endpoint, and the app has none. Import McpStreamableModule.forRoot() too.';
    throw new McpOptionError('imports', text);
  }

  /** Waits for the last records, `timeoutMs` at most. @internal */
  async onModuleDestroy(): Promise<void> {
    this.#recording.unsubscribe();
    if (this.pending === this.#late) return;
    const written = Promise.all([this.#writing.empty(), this.#writingRefusals.empty()]);
    await within(written, this.options.timeoutMs, this.clock);
  }

  /** Writes a record. A failure is counted. @internal */
  write(record: McpAuditRecord): void {
    this.#write(record)?.catch(() => {});
  }

  /** Writes a record of refused requests. @returns whether there was a place for it @internal */
  writeRefusal(record: McpAuditRecord): boolean {
    if (this.#writingRefusals.taken >= MAX_REFUSALS) return false;
    this.#give(record, this.#writingRefusals)?.catch(() => {});
    return true;
  }

  /**
   * Writes a record, without which a call is not served.
   *
   * @returns `undefined`: the sink has taken it
   * @throws (rejects) McpError UNAVAILABLE
   * @internal
   */
  assertWritten(record: McpAuditRecord): Promise<void> | undefined {
    return this.#write(record)?.catch((error: unknown) => {
      const text =
        'This server records each call before it serves it, and could not record this one. The call had no effect. Repeat it later.';
      throw retryLater('UNAVAILABLE', text, 5, { cause: error });
    });
  }

  /** @returns `undefined` if the sink has taken it; else rejects when it has failed, or is late */
  #write(record: McpAuditRecord): Promise<void> | undefined {
    const { maxPending } = this.options;
    if (this.#writing.taken < maxPending) return this.#give(record, this.#writing);
    return this.#lost(new Error(`The sink has not finished ${maxPending} earlier records ("maxPending").`));
  }

  #give(record: McpAuditRecord, places: Places): Promise<void> | undefined {
    try {
      const writing = this.#sink!.write(record);
      if (isThenable(writing)) return this.#settled(writing, places);
      this.#written++;
      return undefined;
    } catch (error) {
      return this.#lost(error);
    }
  }

  #settled(writing: PromiseLike<void>, places: Places): Promise<void> {
    const { timeoutMs } = this.options;
    places.taken++;
    return new Promise((resolve, reject) => {
      let late = false;
      const timer = this.clock.setTimeout(() => {
        late = true;
        this.#late++;
        this.#lost(new Error(`The sink has not taken a record within ${timeoutMs} ms ("timeoutMs").`)).catch(reject);
      }, timeoutMs);
      const over = (): void => {
        this.clock.clear(timer);
        if (late) this.#late--;
        places.leave();
      };
      Promise.resolve(writing).then(
        () => {
          over();
          if (!late) this.#written++;
          resolve();
        },
        (error: unknown) => {
          over();
          if (!late) this.#lost(error).catch(reject);
        },
      );
    });
  }

  /** Counts a record that was not written. @returns rejects with the error */
  #lost(error: unknown): Promise<never> {
    this.#failures++;
    this.#report('A record was not written', error);
    return Promise.reject(error);
  }

  #report(what: string, error: unknown): void {
    const now = this.clock.now();
    if (now - this.#loggedAt < LOG_MS) return;
    this.#loggedAt = now;
    const reason = error instanceof Error ? error.message : shown(error);
    logger.error(
      `${what}: ${reason.replace(/\.$/, '')}. The number of records that were not written since the start is ${this.#failures}. Failures within the next minute are counted, but not logged.`,
      (error as Partial<Error> | undefined)?.stack,
    );
  }

  async #makeSink(): Promise<McpAuditSink> {
    const { sink = LOGGED } = this.options;
    if (typeof sink !== 'function') return sink;
    const made: unknown = await this.#instanceOf(sink);
    assertSink(made);
    return made;
  }

  async #instanceOf(sink: Extract<ResolvedAuditOptions['sink'], new (...args: never[]) => unknown>): Promise<unknown> {
    try {
      return this.module.get(sink, { strict: false });
    } catch {
      // No module of the app provides it.
      return this.module.create(sink);
    }
  }
}

/**
 * The places of the records that the sink is writing. It is no Set of them: one that is emptied with each call makes a table for each, and
 * the first of these tables in the old generation of the heap keeps all that follow, and the calls in them, until a full collection.
 */
class Places {
  taken = 0;
  #emptied: Deferred<void> | undefined;

  leave(): void {
    if (--this.taken === 0) this.#emptied?.resolve();
  }

  /** Resolves when no place is taken. */
  async empty(): Promise<void> {
    if (this.taken > 0) await (this.#emptied ??= deferred()).promise;
  }
}

/** Writes lines of JSON to the log of the app. */
const LOGGED: McpAuditSink = { write: (record) => logger.log(JSON.stringify(record)) };

/** Attaches the audit to all endpoints of the app. */
@Injectable()
export class AuditPlugin extends McpPlugin {
  readonly ring = 'record';

  constructor(@Inject(McpAuditService) private readonly service: McpAuditService) {
    super();
  }

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    return this.service.attach(endpoint);
  }
}
