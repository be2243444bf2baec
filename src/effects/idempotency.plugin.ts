import type { CallToolResult } from '@modelcontextprotocol/server';
import { after, type MaybePromise, settle } from '../core/common/promises.js';
import { HandlerCancelled } from '../core/calls/handler-signals.js';
import { routeText } from '../core/calls/mcp-call.js';
import type { McpContext, McpEntering } from '../core/calls/mcp-context.js';
import { logger } from '../core/calls/operator-log.js';
import { digestOfJson } from '../core/questions/request-state.js';
import { hashOf } from '../core/questions/state/stored-states.js';
import {
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
  type McpRun,
  type McpRunHooks,
} from '../core/plugins/mcp-plugin.js';
import { shown } from '../core/protocol/errors.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { addressOf } from '../core/protocol/local-caller.js';
import { sdk } from '../core/protocol/spec.js';
import { type CallEnd, Claim, failure, IdempotentCalls, type KeyPlace } from './idempotent-calls.js';
import { NodeLease } from './node-lease.js';
import { idempotencyOf, type ToolIdempotency } from './checked-options.js';
import { type EndpointEffects, toolOf } from './endpoint-effects.js';

/** A key has at most so many characters. */
const MAX_KEY = 256;
/** Anonymous callers without a session have as many keys together as so many addresses may have. */
const SHARES = 10;
const FREE: CallEnd = { kind: 'free' };
const UNKNOWN: CallEnd = { kind: 'unknown' };

/** Repeats of a call run once (`idempotency`). */
export class IdempotencyPlugin extends McpPlugin {
  readonly ring = 'once';

  constructor(private readonly effectsOf: (endpoint: McpEndpointHost) => EndpointEffects) {
    super();
  }

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    const { clock, nodes } = endpoint;
    const { nodeId } = nodes;
    const effects = this.effectsOf(endpoint);
    const { store, owner } = effects;
    const lease = new NodeLease(nodeId, store, clock, `${owner}:nodes`);
    const calls = new IdempotentCalls(store, lease, clock, (text) => logger.error(text));
    return {
      handler: (target): McpHandlerHooks | undefined => {
        const options = idempotencyOf(target);
        if (!options) return undefined;
        effects.take(target);
        return {
          run: (run) =>
            new IdempotentRound(run, options, (key) => calls.enter(placeOf(run, key, options, effects), run.call)),
        };
      },
      started: () => effects.started(),
      drain: async (limitMs, callsEnded) => {
        const until = clock.now() + limitMs;
        await callsEnded;
        await calls.drain(until - clock.now());
      },
      close: async () => {
        calls.close();
        await lease.leave();
      },
      // The next repeats learn that the end of its calls is not known.
      nodeDied: (node) => lease.end(node),
    };
  }
}

function placeOf(run: McpRun, key: string, options: ToolIdempotency, effects: EndpointEffects): KeyPlace {
  const { call, sent } = run;
  const { maxKeys } = options;
  const owner = effects.ownerOf(run);
  const id = hashOf(JSON.stringify([routeText(call.routeParams) ?? null, key]));
  const from = addressOwnerOf(run, effects);
  const share = from === undefined ? undefined : { key: `${from}:i.${id}`, quota: { owner: from, max: maxKeys } };
  const quota = { owner, max: share ? SHARES * maxKeys : maxKeys };
  return { key: `${owner}:i.${id}`, quota, share, args: digestOfJson(sent), options };
}

/**
 * Returns the owner of what counts for the address of a caller; `undefined` for one that is known otherwise, or has none. The keys
 * themselves belong to no address: a repeat may come from another one.
 */
function addressOwnerOf({ call, target }: McpRun, { owner }: EndpointEffects): string | undefined {
  const { principal, session, request } = call;
  const address = principal === undefined && !session ? addressOf(request) : '';
  return address === '' ? undefined : `${owner}:a-${hashOf(address)}.${toolOf(target)}`;
}

/**
 * # One round of a tool with `idempotency`
 *
 *     (guards, valid arguments) ──▶ first of its key? ──▶ the rings inside ──▶ THE METHOD
 *                                        └─ result of the first
 *
 * Invariant: a claim ends when the round does. A round that was answered by an interceptor before is over for the method too.
 */
class IdempotentRound implements McpRunHooks {
  #claim: Claim | undefined;
  #entered = false;
  #over = false;

  constructor(
    private readonly run: McpRun,
    private readonly options: ToolIdempotency,
    /** Claims a key. @returns the claim, or the result of the repeat */
    private readonly claim: (key: string) => Promise<Claim | object>,
  ) {}

  enclose<T>(inside: () => MaybePromise<T>): MaybePromise<T> {
    return settle(
      inside,
      (result) => after(this.#end(this.#endWith(result)), () => result),
      (error) =>
        after(this.#end(UNKNOWN), () => {
          throw error;
        }),
    );
  }

  #end(end: CallEnd): Promise<void> | undefined {
    this.#over = true;
    return this.#claim?.end(!this.#entered || this.run.isMarked ? FREE : end);
  }

  entering({ validArguments, context }: McpEntering): MaybePromise<object | undefined> {
    return after(validArguments, (args) => {
      this.#assertRuns(context);
      return after(this.#keyOf(args, context), (key) => {
        if (key instanceof InvalidKey) return failure(key.message);
        this.#assertRuns(context);
        return key === undefined ? undefined : this.#enter(key, context);
      });
    });
  }

  async #enter(key: string, context: McpContext): Promise<object | undefined> {
    const claim = await this.claim(key);
    if (this.#over && claim instanceof Claim) await claim.end(FREE);
    this.#assertRuns(context);
    if (!(claim instanceof Claim)) return claim;
    this.#claim = claim;
    return undefined;
  }

  /** Throws if an interceptor has answered meanwhile, or the call was cancelled. */
  #assertRuns(context: McpContext): void {
    if (this.#over) throw new HandlerCancelled(context.signal.reason);
  }

  entered(): void {
    this.#entered = true;
  }

  /** @returns `undefined` for a call without a key */
  #keyOf(args: unknown, context: McpContext): MaybePromise<string | InvalidKey | undefined> {
    const { argument } = this.options;
    if (argument === undefined) {
      return after(this.options.key!(args as never, context), (key: unknown) => {
        if (key === undefined || isKey(key)) return key;
        const text = `The "key" of "idempotency" must return a text of 1 to ${MAX_KEY} characters, or undefined; it returned ${shown(key)}.`;
        throw new TypeError(text);
      });
    }
    const { sent } = this.run;
    const key = Object.hasOwn(sent, argument) ? sent[argument] : undefined;
    if (key === undefined || isKey(key)) return key;
    return new InvalidKey(
      `The argument "${argument}" must be a text of 1 to ${MAX_KEY} characters, which names this call. The tool did not run.`,
    );
  }

  #endWith(result: unknown): CallEnd {
    try {
      return this.#endOf(result);
    } catch {
      // A getter has thrown: it is read no further.
      return UNKNOWN;
    }
  }

  #endOf(result: unknown): CallEnd {
    if (sdk.isInputRequiredResult(result)) return FREE;
    if (!isObject(result)) return UNKNOWN;
    const failed = (result as Partial<CallToolResult>).isError === true;
    // Its time has passed, or its caller has left: the method may go on, or may have ended halfway.
    if (failed && this.run.call.aborted) return UNKNOWN;
    const passing = failed && this.options.errors === 'free';
    return { kind: passing ? 'passing' : 'result', result };
  }
}

class InvalidKey {
  constructor(readonly message: string) {}
}

function isKey(key: unknown): key is string {
  return typeof key === 'string' && key.length > 0 && key.length <= MAX_KEY;
}
