import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type CompleteRequest,
  type CompleteResult,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { currentMcpCall } from '../../context/mcp-call.js';
import { McpContext } from '../../context/mcp-context.js';
import type { Completion, HandlerKind } from '../../handlers/handler-entry.js';
import type { EntryOf, HandlerTable } from '../../handlers/handler-table.js';
import type { StoredStates } from '../../session/stored-states.js';
import { protocolMessages } from '../protocol.messages.js';
import { type AskingRequest, HandlerRun, type RunParts } from '../questions/handler-run.js';
import {
  type CachedEntry,
  type CacheFields,
  type CachePolicy,
  discoveryHints,
  listHints,
  withReadHints,
} from './cache-hints.js';
import { callingClient } from './calling-client.js';
import { answerDenial } from './denials.js';
import { visiblePage } from './list-pages.js';
import { SdkClientPort } from './sdk-client-port.js';

/** JSON-RPC result of a request that merely succeeded. */
const EMPTY = {};
const NO_COMPLETION: CompleteResult['completion'] = { values: [], total: 0, hasMore: false };

export interface HandlerRequestOptions {
  /** Entries per page of a list. */
  readonly pageSize: number;
  /** Milliseconds that a client has to answer a question. */
  readonly serverRequestTimeoutMs: number;
  readonly cache: CachePolicy;
}

/** What the requests of the protocol mean for the handlers of an endpoint: one object for all sessions. */
export class HandlerRequests {
  constructor(
    private readonly table: HandlerTable,
    private readonly options: HandlerRequestOptions,
    private readonly parts: RunParts,
    /** What outlives a call. */
    private readonly stored: StoredStates,
  ) {}

  /** What `server/discover` says of how long it holds. */
  get discoveryHints(): CacheFields {
    return discoveryHints(this.options.cache);
  }

  /** What checks the answers of clients: compiled once, for all servers. */
  get schemas(): RunParts['schemas'] {
    return this.parts.schemas;
  }

  /** Gives a server the handler of a method. @returns whether there is one */
  install(server: Server, method: string): boolean {
    switch (method) {
      case 'tools/list':
        server.setRequestHandler(method, this.#listTools);
        return true;
      case 'tools/call':
        server.setRequestHandler(method, this.#callTool);
        return true;
      case 'resources/list':
        server.setRequestHandler(method, this.#listResources);
        return true;
      case 'resources/templates/list':
        server.setRequestHandler(method, this.#listTemplates);
        return true;
      case 'resources/read':
        server.setRequestHandler(method, this.#readResource);
        return true;
      case 'resources/subscribe':
        server.setRequestHandler(method, this.#subscribe);
        return true;
      case 'resources/unsubscribe':
        server.setRequestHandler(method, this.#unsubscribe);
        return true;
      case 'prompts/list':
        server.setRequestHandler(method, this.#listPrompts);
        return true;
      case 'prompts/get':
        server.setRequestHandler(method, this.#getPrompt);
        return true;
      case 'completion/complete':
        server.setRequestHandler(method, this.#complete);
        return true;
      default:
        return false;
    }
  }

  /**
   * Whether there is a resource at a URI that the caller may read: only then may he learn when it changes. Unlike in a list,
   * its guards have their arguments.
   */
  async admits(uri: string, context: McpContext): Promise<boolean> {
    return (await this.#find(uri)?.admits(context)) ?? false;
  }

  // Fields, so that every server is given the same functions.

  readonly #listTools = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: tools, ...rest } = await this.#list('tool', params?.cursor, sdk);
    return { tools, ...rest };
  };

  readonly #listResources = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: resources, ...rest } = await this.#list('resource', params?.cursor, sdk);
    return { resources, ...rest };
  };

  readonly #listTemplates = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: resourceTemplates, ...rest } = await this.#list('template', params?.cursor, sdk);
    return { resourceTemplates, ...rest };
  };

  readonly #listPrompts = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: prompts, ...rest } = await this.#list('prompt', params?.cursor, sdk);
    return { prompts, ...rest };
  };

  readonly #callTool = ({ params }: { params: Named & { arguments?: object } }, sdk: ServerContext) => {
    const tool = this.table.get('tool', params.name);
    if (!tool) throw invalidParams(protocolMessages.unknownTool(params.name));
    const args = (params.arguments ?? {}) as Record<string, unknown>;
    const request = { target: params.name, params: { ...params } };
    return this.#run(request, sdk, (context) => tool.invoke(args, context)) as Promise<never>;
  };

  readonly #getPrompt = (
    { params }: { params: Named & { arguments?: Record<string, string> } },
    sdk: ServerContext,
  ) => {
    const prompt = this.table.get('prompt', params.name);
    if (!prompt) throw invalidParams(protocolMessages.unknownPrompt(params.name));
    const request = { target: params.name, params: { ...params } };
    return this.#run(request, sdk, (context) => prompt.invoke(params.arguments ?? {}, context));
  };

  readonly #readResource = async ({ params }: { params: { uri: string } }, sdk: ServerContext) => {
    const found = this.#find(params.uri);
    if (!found) throw new ResourceNotFoundError(params.uri);
    const result = await this.#run({ target: params.uri, params }, sdk, (context) => found.read(context));
    const { inputResponses, requestState } = sdk.mcpReq;
    const repeated = inputResponses !== undefined || requestState() !== undefined;
    return withReadHints(result, found.entry, this.options.cache, repeated);
  };

  readonly #subscribe = async ({ params: { uri } }: { params: { uri: string } }, sdk: ServerContext) => {
    if (!(await this.admits(uri, this.#context(sdk)))) throw new ResourceNotFoundError(uri);
    return EMPTY;
  };

  readonly #unsubscribe = () => EMPTY;

  readonly #complete = async ({ params }: CompleteRequest, sdk: ServerContext): Promise<CompleteResult> => {
    const { ref, argument } = params;
    const entry = this.#referred(ref);
    const context = this.#context(sdk);
    const visible = entry && (!entry.guarded || (await entry.visible(context)));
    if (!visible) throw invalidParams(protocolMessages.unknownReference(ref));
    const complete: Completion | undefined =
      entry.kind === 'resource' ? undefined : entry.completions.get(argument.name);
    const known = params.context?.arguments ?? {};
    return {
      completion: complete ? await answerDenial(() => complete(argument.value, known, context)) : NO_COMPLETION,
    };
  };

  async #list<Kind extends HandlerKind>(
    kind: Kind,
    cursor: string | undefined,
    sdk: ServerContext,
  ): Promise<{ wires: EntryOf<Kind>['wire'][]; nextCursor: string | undefined } & Partial<CacheFields>> {
    const { pageSize: size, cache } = this.options;
    const { entries, nextCursor } = await visiblePage(this.table, kind, this.#context(sdk), { cursor, size });
    const wires = entries.map(({ wire }) => wire as EntryOf<Kind>['wire']);
    return { wires, nextCursor, ...listHints(this.table, kind, cache) };
  }

  /** A resource may be referred to as well, by its URI: it has nothing to complete. */
  #referred(ref: CompleteRequest['params']['ref']) {
    if (ref.type === 'ref/prompt') return this.table.get('prompt', ref.name);
    return this.table.get('template', ref.uri) ?? this.table.get('resource', ref.uri);
  }

  /** The resource with this URI, or the first template that matches it. */
  #find(uri: string): FoundResource | undefined {
    const entry = this.table.get('resource', uri);
    if (entry) return foundAs(entry, { uri });
    for (const template of this.table.all('template')) {
      const variables = template.template.match(uri);
      if (variables) return foundAs(template, { uri, variables });
    }
    return undefined;
  }

  /** Runs a handler that can ask. A denial counts only when the handler has not asked before. */
  #run<T>(request: AskingRequest, sdk: ServerContext, handler: (context: McpContext) => Promise<T>) {
    const { run, context } = this.#begin(sdk, request);
    return answerDenial(() => run.finish(() => handler(context)));
  }

  #context(sdk: ServerContext): McpContext {
    return this.#begin(sdk).context;
  }

  #begin(sdk: ServerContext, request?: AskingRequest): { run: HandlerRun; context: McpContext } {
    const call = currentMcpCall();
    if (!call) throw new Error(protocolMessages.outsideOfCall());
    const port = new SdkClientPort(sdk, this.options.serverRequestTimeoutMs);
    const run = new HandlerRun(call, sdk, port, this.parts, request);
    const states = this.stored.of({ principal: call.principal, client: () => callingClient(call, sdk) });
    return { run, context: new McpContext(call, run, sdk.mcpReq._meta?.progressToken, states) };
  }
}

interface FoundResource {
  readonly entry: CachedEntry;
  read(context: McpContext): ReturnType<EntryOf<'resource'>['invoke']>;
  admits(context: McpContext): Promise<boolean>;
}

/** A resource, or a template that matches, with what it is asked with. */
function foundAs<Args>(entry: Asked<Args>, args: Args): FoundResource {
  return {
    entry,
    read: (context) => entry.invoke(args, context),
    admits: (context) => entry.admits(args, context),
  };
}

interface Asked<Args> extends CachedEntry {
  invoke(args: Args, context: McpContext): ReturnType<EntryOf<'resource'>['invoke']>;
  admits(args: Args, context: McpContext): Promise<boolean>;
}

interface Paged {
  params?: { cursor?: string };
}
interface Named {
  name: string;
}

function invalidParams(message: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, message);
}
