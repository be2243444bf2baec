import type { CallToolResult } from '@modelcontextprotocol/server';
import type { McpClock } from '../../common/clock.js';
import { quiet } from '../../common/promises.js';
import { type McpCall, routeText } from '../../calls/mcp-call.js';
import type { HandlerGate, McpContext, McpEntering } from '../../calls/mcp-context.js';
import type { ReportStoreFault } from '../../calls/operator-log.js';
import { shown } from '../../protocol/errors.js';
import { addressOf } from '../../protocol/local-caller.js';
import { isObject } from '../../protocol/json-rpc.js';
import { sdk } from '../../protocol/spec.js';
import type { ToolConfirm, ToolEffects, ToolIdempotency } from '../decorators/tool-effects.js';
import { HandlerCancelled, HandlerSkipped } from '../../calls/handler-signals.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import { confirmed, type ConfirmPages, type QuestionRecords } from '../questions/confirm.js';
import type { HandlerRun } from '../questions/handler-run.js';
import { digestOfJson } from '../questions/request-state.js';
import type { ToolEntry } from '../registry/handler-table.js';
import type { McpStateStore } from '../state/state-store.js';
import { ClaimStore } from './claim-store.js';
import { StoredPages } from './confirm-pages.js';
import { type CallEnd, Claim, failure, IdempotentCalls } from './idempotent-calls.js';
import { NodeLease } from './node-lease.js';
import { StoredQuestions } from './stored-questions.js';
import { hashOf } from '../state/stored-states.js';

/** A key has at most so many characters. */
const MAX_KEY = 256;

/** Anonymous callers without a session have as many keys together as so many addresses may have. */
const SHARES = 10;

const REMEDY = 'Give the endpoint a "stateStore" with add() that all nodes share, such as that of redisBackend().';

export interface ToolGatesOptions {
  /** Separates endpoints that share a store; the same on all nodes, and without colons. */
  readonly endpoint: string;
  readonly nodeId: string;
  readonly requestStateTtlMs: number;
  readonly clockToleranceMs: number;
  /** Whether other nodes see the sessions of the endpoint. */
  readonly sharesSessions: boolean;
  /** Whether the state store is the default one, in the memory of this process. */
  readonly hasOwnStore: boolean;
}

/** A call of a tool with effects. */
export interface EffectCall {
  readonly call: McpCall;
  readonly run: HandlerRun;
  readonly tool: string;
  readonly effects: ToolEffects;
  /** The arguments as the client sent them. */
  readonly args: Readonly<Record<string, unknown>>;
}

/**
 * Stands before the tools of an endpoint that have `idempotency` or `confirm`, and keeps what they need in the state store.
 *
 * Keys have the form `once.<endpoint>:<caller>.<tool>:<id>`. The caller is the principal, as a hash; of anonymous callers their
 * session; those without a session are one, and their keys count for their addresses.
 */
export class ToolGates {
  readonly #store: ClaimStore;
  readonly #lease: NodeLease;
  readonly #calls: IdempotentCalls;
  readonly #questions: StoredQuestions;
  readonly pages: StoredPages;

  constructor(
    store: McpStateStore,
    private readonly clock: McpClock,
    private readonly options: ToolGatesOptions,
    fault: ReportStoreFault,
    report: (text: string) => void,
    private readonly warn: (text: string) => void,
  ) {
    this.#store = new ClaimStore(store, fault);
    this.#lease = new NodeLease(options.nodeId, this.#store, clock, `once.${options.endpoint}:nodes`);
    this.#calls = new IdempotentCalls(this.#store, this.#lease, clock, report);
    const isShared = this.#store.isAtomic && !options.hasOwnStore;
    this.#questions = new StoredQuestions(this.#store, clock, { ...options, isShared });
    this.pages = new StoredPages(this.#store, clock, options.endpoint);
  }

  /**
   * Checks that what a tool remembers is seen by all nodes that share the sessions of the endpoint.
   *
   * @throws McpHandlerDefinitionError if the endpoint shares its sessions, and does not share that
   */
  assertShared({ effects, origin }: Pick<ToolEntry, 'effects' | 'origin'>): void {
    const why = this.#whyNotShared;
    if (!effects || !this.options.sharesSessions || why === undefined) return;
    const reason = `it has "idempotency" or "confirm", and the nodes that share the sessions of its endpoint would not see its calls on each other: ${why}. ${REMEDY}`;
    throw new McpHandlerDefinitionError(origin, reason);
  }

  /** Logs, at start, that what the tools promise holds within this process alone, if it does. */
  logAtStart(tools: readonly Pick<ToolEntry, 'effects' | 'key'>[]): void {
    const why = this.#store.isAtomic ? undefined : this.#whyNotShared;
    const names = tools.filter(({ effects }) => effects).map(({ key }) => key);
    if (names.length === 0 || why === undefined) return;
    this.warn(
      `The tools with "idempotency" or "confirm" (${names.join(', ')}) keep their promises only within this process, because ${why}. That is enough if there is one process. ${REMEDY}`,
    );
  }

  /** @returns `undefined`: other nodes see what this one remembers */
  get #whyNotShared(): string | undefined {
    if (!this.#store.isAtomic)
      return 'the "stateStore" has no method add(), which sets a value for one caller of all nodes';
    return this.options.hasOwnStore ? 'the state store is in the memory of this process' : undefined;
  }

  /**
   * Runs the handler of a call.
   *
   * @param invoke runs it behind the gate
   * @returns its result, or the one that the call gets instead
   * @throws what the handler throws
   */
  async serve<T>(effectCall: EffectCall, invoke: (gate: HandlerGate) => Promise<T>): Promise<T> {
    const { call, tool, args: sent } = effectCall;
    const { principal } = call;
    const gate = new ToolGate(effectCall, {
      clock: this.clock,
      pages: ({ ttlMs }) =>
        principal === undefined
          ? undefined
          : this.pages.of({
              principal,
              tool,
              call: JSON.stringify([routeText(call.routeParams) ?? null, digestOfJson(sent)]),
              ttlMs,
            }),
      records: this.#questions.of(this.#ownerOf(effectCall), call),
      claim: (key, { ttlMs, maxBytes, maxKeys }) => {
        const owner = this.#ownerOf(effectCall);
        const id = hashOf(JSON.stringify([routeText(call.routeParams) ?? null, key]));
        const from = this.#addressOwnerOf(effectCall);
        const share = from === undefined ? undefined : { key: `${from}:i.${id}`, quota: { owner: from, max: maxKeys } };
        const quota = { owner, max: share ? SHARES * maxKeys : maxKeys };
        const place = { key: `${owner}:i.${id}`, quota, share, args: digestOfJson(sent), options: { ttlMs, maxBytes } };
        return this.#calls.enter(place, call);
      },
    });
    return gate.serve(invoke);
  }

  /** Ends what a node has claimed that has died: the next repeats learn that the end of its calls is not known. */
  nodeDied(node: string): Promise<void> {
    return this.#lease.end(node);
  }

  /** Waits until the store has the results of all calls that have ended, for `limitMs` at most. */
  drain(limitMs: number): Promise<void> {
    return this.#calls.drain(limitMs);
  }

  /** Called when all calls of this node have been ended, and before its stores close. */
  async leave(): Promise<void> {
    this.#calls.close();
    await this.#lease.leave();
  }

  /**
   * Returns the owner of what counts for the address of a caller; `undefined` for one that is known otherwise, or has none. The keys
   * themselves belong to no address: a repeat may come from another one.
   */
  #addressOwnerOf({ call: { principal, session, request }, tool }: EffectCall): string | undefined {
    const address = principal === undefined && !session ? addressOf(request) : '';
    return address === '' ? undefined : `once.${this.options.endpoint}:a-${hashOf(address)}.${hashOf(tool)}`;
  }

  #ownerOf({ call: { principal, session }, tool }: EffectCall): string {
    const anonymous = session ? `s-${hashOf(session.id)}` : '-';
    return `once.${this.options.endpoint}:${principal === undefined ? anonymous : hashOf(principal)}.${hashOf(tool)}`;
  }
}

interface GateParts {
  readonly clock: McpClock;
  readonly records: QuestionRecords;
  /** Returns the pages of the call; `undefined` for an anonymous caller. */
  pages(confirm: ToolConfirm): ConfirmPages | undefined;
  /** Claims a key. @returns the claim, or the result of the repeat */
  claim(key: string, options: ToolIdempotency): Promise<Claim | object>;
}

/**
 * # Before the method of one run
 *
 *     (guards, valid arguments) ──▶ first of its key? ──▶ confirmed? ──▶ its turn (`maxConcurrent`) ──▶ THE METHOD
 *                                        └─ result of the first   └─ refusal
 *
 * Invariant: a claim ends when the run does. A run that was answered by an interceptor before is over for the method too.
 */
class ToolGate implements HandlerGate {
  #entering: Promise<void> | undefined;
  #claim: Claim | undefined;
  /** The result in place of that of the method. */
  #instead: object | undefined;
  #context: McpContext | undefined;
  #entered = false;
  #over = false;

  constructor(
    private readonly about: EffectCall,
    private readonly parts: GateParts,
  ) {}

  /** It is called again when an interceptor repeats the method. */
  enter(admitted: McpEntering, context: McpContext): Promise<void> {
    return (this.#entering ??= quiet(this.#enter(admitted, context)));
  }

  entered(): void {
    this.#entered ||= !this.#context!.aborted;
  }

  async serve<T>(invoke: (gate: HandlerGate) => Promise<T>): Promise<T> {
    let outcome: PromiseSettledResult<T>;
    try {
      outcome = { status: 'fulfilled', value: await invoke(this) };
    } catch (reason) {
      outcome = { status: 'rejected', reason };
    }
    this.#over = true;
    if (this.#instead) {
      await this.#claim?.end({ kind: 'free' });
      return this.#instead as T;
    }
    await this.#claim?.end(this.#endOf(outcome));
    if (outcome.status === 'rejected') throw outcome.reason;
    return outcome.value;
  }

  async #enter(admitted: McpEntering, context: McpContext): Promise<void> {
    this.#context = context;
    const { effects, run } = this.about;
    const { records, clock } = this.parts;
    const args: unknown = await admitted.validArguments;
    if (effects.idempotency) await this.#claimKey(effects.idempotency, args, context);
    const { confirm } = effects;
    if (confirm) {
      const pages = confirm.whenUnable === 'url' ? this.parts.pages(confirm) : undefined;
      this.#answer(await confirmed(confirm, { run, context, args, records, pages, clock }));
    }
    if (this.#over) throw new HandlerCancelled(context.signal.reason);
  }

  async #claimKey(options: ToolIdempotency, args: unknown, context: McpContext): Promise<void> {
    const key = await this.#keyOf(options, args, context);
    if (key === undefined) return;
    if (key instanceof InvalidKey) return this.#answer(failure(key.message));
    const claim = await this.parts.claim(key, options);
    if (!(claim instanceof Claim)) return this.#answer(claim);
    if (!this.#over) {
      this.#claim = claim;
      return;
    }
    await claim.end({ kind: 'free' });
    throw new HandlerCancelled(context.signal.reason);
  }

  /** @returns `undefined` for a call without a key */
  async #keyOf(options: ToolIdempotency, args: unknown, context: McpContext): Promise<string | InvalidKey | undefined> {
    const { argument } = options;
    if (argument === undefined) {
      const key: unknown = await options.key!(args as never, context);
      if (key === undefined || isKey(key)) return key;
      const text = `The "key" of "idempotency" must return a text of 1 to ${MAX_KEY} characters, or undefined; it returned ${shown(key)}.`;
      throw new TypeError(text);
    }
    const sent = this.about.args;
    const key = Object.hasOwn(sent, argument) ? sent[argument] : undefined;
    if (key === undefined || isKey(key)) return key;
    return new InvalidKey(
      `The argument "${argument}" must be a text of 1 to ${MAX_KEY} characters, which names this call. The tool did not run.`,
    );
  }

  /** Ends the run with a result. @throws HandlerSkipped if there is one */
  #answer(result: object | undefined): void {
    if (!result) return;
    this.#instead = result;
    throw new HandlerSkipped('The call was answered without its handler.');
  }

  #endOf(outcome: PromiseSettledResult<unknown>): CallEnd {
    if (!this.#entered || this.about.run.isMarked) return { kind: 'free' };
    if (outcome.status === 'rejected') return { kind: 'unknown' };
    const { value } = outcome;
    if (sdk.isInputRequiredResult(value)) return { kind: 'free' };
    if (!isObject(value)) return { kind: 'unknown' };
    const failed = (value as Partial<CallToolResult>).isError === true;
    // Its time has passed, or its caller has left: the method may go on, or may have ended halfway.
    if (failed && this.#context!.aborted) return { kind: 'unknown' };
    const passing = failed && this.about.effects.idempotency?.errors === 'free';
    return { kind: passing ? 'passing' : 'result', result: value };
  }
}

class InvalidKey {
  constructor(readonly message: string) {}
}

function isKey(key: unknown): key is string {
  return typeof key === 'string' && key.length > 0 && key.length <= MAX_KEY;
}
