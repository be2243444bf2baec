import type { JsonRpcRequest } from '../wire/json-rpc.js';
import type { ReplayPolicy, ReplayReason } from './client.options.js';

/** They read, or set something to a value: twice is as good as once. */
const IDEMPOTENT_METHODS: ReadonlySet<string> = new Set([
  ...['initialize', 'ping', 'server/discover', 'tools/list', 'prompts/list', 'prompts/get', 'completion/complete'],
  ...['resources/list', 'resources/templates/list', 'resources/read', 'resources/subscribe', 'resources/unsubscribe'],
  ...['logging/setLevel', 'tasks/get', 'tasks/list', 'tasks/result'],
]);

/** Tools that are remembered; a server with more has more than any model can be told of. */
const MAX_TOOLS = 10_000;

/** Which requests may be carried out twice, as far as the server has said. */
export class Idempotency {
  readonly #tools = new Set<string>();

  constructor(private readonly policy: ReplayPolicy) {}

  /** Takes the hints of an answered `tools/list` (2025-03-26, "Tool annotations"). */
  learn(request: JsonRpcRequest, result: unknown): void {
    if (request.method !== 'tools/list') return;
    const { tools } = result as { tools?: unknown };
    for (const tool of Array.isArray(tools) ? (tools as Partial<ListedTool>[]) : []) {
      if (typeof tool?.name !== 'string') continue;
      const { idempotentHint, readOnlyHint } = tool.annotations ?? {};
      this.#tools.delete(tool.name);
      if ((idempotentHint === true || readOnlyHint === true) && this.#tools.size < MAX_TOOLS)
        this.#tools.add(tool.name);
    }
  }

  mayReplay(request: JsonRpcRequest, reason: ReplayReason): boolean {
    // Who listens has to know that there was a gap.
    if (request.method === 'subscriptions/listen') return false;
    const { policy } = this;
    if (policy === 'always') return true;
    if (policy === 'never') return false;
    const idempotent = this.#isIdempotent(request);
    return policy === 'idempotent' ? idempotent : policy({ request, reason, idempotent });
  }

  #isIdempotent({ method, params }: JsonRpcRequest): boolean {
    if (method !== 'tools/call') return IDEMPOTENT_METHODS.has(method);
    const { name } = (params ?? {}) as { name?: unknown };
    return typeof name === 'string' && this.#tools.has(name);
  }
}

interface ListedTool {
  name: string;
  annotations?: { idempotentHint?: unknown; readOnlyHint?: unknown };
}
