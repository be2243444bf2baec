import { Server, type CallToolResult, type ServerContext } from '@modelcontextprotocol/server';
import { LEGACY_REVISIONS, MODERN_REVISIONS, McpServer, type McpServerContext } from 'nestjs-mcp-streamable/server';

/** What a tool of an SDK server does. */
export type ScriptedTool = (
  args: Record<string, unknown>,
  ctx: ServerContext,
  here: { server: Server; context: McpServerContext },
) => CallToolResult | string | undefined | Promise<CallToolResult | string | undefined>;

/**
 * The option `server` with low-level SDK servers whose tools are functions of the test.
 *
 * @param onServer is called with each server that is made
 */
export function scripted(
  tools: Record<string, ScriptedTool>,
  onServer?: (server: Server, context: McpServerContext) => void,
): (context: McpServerContext) => Server {
  return (context) => {
    const server = scriptedServer(tools, context);
    onServer?.(server, context);
    return server;
  };
}

/** A low-level SDK server whose tools are the given functions; `tools/list` names them. */
export function scriptedServer(tools: Record<string, ScriptedTool>, context: McpServerContext): Server {
  const capabilities = {
    tools: { listChanged: true },
    logging: {},
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
  };
  const supportedProtocolVersions = [...LEGACY_REVISIONS, ...MODERN_REVISIONS];
  const server = new Server({ name: 'test', version: '1.0.0' }, { capabilities, supportedProtocolVersions });
  server.setRequestHandler('tools/list', () => ({
    tools: Object.keys(tools).map((name) => ({ name, inputSchema: { type: 'object' as const } })),
  }));
  server.setRequestHandler('resources/list', () => ({ resources: [] }));
  server.setRequestHandler('prompts/list', () => ({ prompts: [] }));
  server.setRequestHandler('resources/subscribe', () => ({}));
  server.setRequestHandler('resources/unsubscribe', () => ({}));
  server.setRequestHandler('tools/call', async (request, ctx) => {
    const { name, arguments: args = {} } = request.params;
    const tool = Object.hasOwn(tools, name) ? tools[name] : undefined;
    if (!tool) throw new Error(`no tool ${name}`);
    const result = await tool(args, ctx, { server, context });
    return typeof result === 'object' ? result : { content: [{ type: 'text', text: result ?? 'done' }] };
  });
  return server;
}

/** A tool that logs on two levels: which of them comes tells what level was set. */
export const logsTwice: ScriptedTool = async (_, ctx) => {
  await ctx.mcpReq.log('info', 'an info');
  await ctx.mcpReq.log('error', 'an error');
  return 'logged';
};

/** A server with one tool, `whoami`, that says what the test wants to know. */
export function serverSaying(say: () => unknown): McpServer {
  const server = new McpServer({ name: 'test', version: '1.0.0' }, { capabilities: { logging: {} } });
  server.registerTool('whoami', {}, () => ({ content: [{ type: 'text', text: String(say()) }] }));
  return server;
}
