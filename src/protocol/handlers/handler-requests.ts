import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type CompleteRequest,
  type CompleteResult,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import { currentMcpCall } from '../../call/mcp-call.js';
import { McpContext } from '../../call/mcp-context.js';
import type { Completion, HandlerKind } from '../../handlers/handler-entry.js';
import type { EntryOf, HandlerTable } from '../../handlers/handler-table.js';
import { protocolMessages } from '../protocol.messages.js';
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
}

/** What the requests of the protocol mean for the handlers of an endpoint: one object for all sessions. */
export class HandlerRequests {
  constructor(
    private readonly table: HandlerTable,
    private readonly options: HandlerRequestOptions,
  ) {}

  install(server: Server): void {
    server.setRequestHandler('tools/list', this.#listTools);
    server.setRequestHandler('tools/call', this.#callTool);
    server.setRequestHandler('resources/list', this.#listResources);
    server.setRequestHandler('resources/templates/list', this.#listTemplates);
    server.setRequestHandler('resources/read', this.#readResource);
    server.setRequestHandler('resources/subscribe', this.#subscribe);
    server.setRequestHandler('resources/unsubscribe', this.#unsubscribe);
    server.setRequestHandler('prompts/list', this.#listPrompts);
    server.setRequestHandler('prompts/get', this.#getPrompt);
    server.setRequestHandler('completion/complete', this.#complete);
  }

  // Fields, so that every server is given the same functions.

  readonly #listTools = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: tools, nextCursor } = await this.#list('tool', params?.cursor, sdk);
    return { tools, nextCursor };
  };

  readonly #listResources = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: resources, nextCursor } = await this.#list('resource', params?.cursor, sdk);
    return { resources, nextCursor };
  };

  readonly #listTemplates = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: resourceTemplates, nextCursor } = await this.#list('template', params?.cursor, sdk);
    return { resourceTemplates, nextCursor };
  };

  readonly #listPrompts = async ({ params }: Paged, sdk: ServerContext) => {
    const { wires: prompts, nextCursor } = await this.#list('prompt', params?.cursor, sdk);
    return { prompts, nextCursor };
  };

  readonly #callTool = async ({ params }: { params: Named & { arguments?: object } }, sdk: ServerContext) => {
    const tool = this.table.get('tool', params.name);
    if (!tool) throw invalidParams(protocolMessages.unknownTool(params.name));
    const args = (params.arguments ?? {}) as Record<string, unknown>;
    return (await answerDenial(() => tool.invoke(args, this.#context(sdk)))) as never;
  };

  readonly #getPrompt = (
    { params }: { params: Named & { arguments?: Record<string, string> } },
    sdk: ServerContext,
  ) => {
    const prompt = this.table.get('prompt', params.name);
    if (!prompt) throw invalidParams(protocolMessages.unknownPrompt(params.name));
    return answerDenial(() => prompt.invoke(params.arguments ?? {}, this.#context(sdk)));
  };

  readonly #readResource = ({ params: { uri } }: { params: { uri: string } }, sdk: ServerContext) => {
    const found = this.#find(uri);
    if (!found) throw new ResourceNotFoundError(uri);
    return answerDenial(() => found.read(this.#context(sdk)));
  };

  readonly #subscribe = async ({ params: { uri } }: { params: { uri: string } }, sdk: ServerContext) => {
    const found = this.#find(uri);
    // Whoever may not see a resource must not learn when it changes.
    const visible = found && (!found.entry.guarded || (await found.entry.visible(this.#context(sdk))));
    if (!visible) throw new ResourceNotFoundError(uri);
    return EMPTY;
  };

  readonly #unsubscribe = () => EMPTY;

  readonly #complete = async ({ params }: CompleteRequest, sdk: ServerContext): Promise<CompleteResult> => {
    const { ref, argument } = params;
    const entry = ref.type === 'ref/prompt' ? this.table.get('prompt', ref.name) : this.table.get('template', ref.uri);
    const context = this.#context(sdk);
    const visible = entry && (!entry.guarded || (await entry.visible(context)));
    if (!visible) throw invalidParams(protocolMessages.unknownReference(ref));
    const complete: Completion | undefined = entry.completions.get(argument.name);
    const known = params.context?.arguments ?? {};
    return {
      completion: complete ? await answerDenial(() => complete(argument.value, known, context)) : NO_COMPLETION,
    };
  };

  async #list<Kind extends HandlerKind>(
    kind: Kind,
    cursor: string | undefined,
    sdk: ServerContext,
  ): Promise<{ wires: EntryOf<Kind>['wire'][]; nextCursor: string | undefined }> {
    const page = { cursor, size: this.options.pageSize };
    const { entries, nextCursor } = await visiblePage(this.table, kind, this.#context(sdk), page);
    return { wires: entries.map(({ wire }) => wire as EntryOf<Kind>['wire']), nextCursor };
  }

  /** The resource with this URI, or the first template that matches it. */
  #find(uri: string): FoundResource | undefined {
    const entry = this.table.get('resource', uri);
    if (entry) return { entry, read: (context) => entry.invoke({ uri }, context) };
    for (const template of this.table.all('template')) {
      const variables = template.template.match(uri);
      if (variables) return { entry: template, read: (context) => template.invoke({ uri, variables }, context) };
    }
    return undefined;
  }

  #context(sdk: ServerContext): McpContext {
    const call = currentMcpCall();
    if (!call) throw new Error(protocolMessages.outsideOfCall());
    const port = new SdkClientPort(sdk, this.options.serverRequestTimeoutMs);
    return new McpContext(call, port, sdk.mcpReq._meta?.progressToken);
  }
}

interface FoundResource {
  readonly entry: EntryOf<'resource'> | EntryOf<'template'>;
  read(context: McpContext): ReturnType<EntryOf<'resource'>['invoke']>;
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
