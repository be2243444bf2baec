import type { Client } from '@modelcontextprotocol/client';
import { fromJsonSchema } from '@modelcontextprotocol/server';
import { toolResult } from 'nestjs-mcp-streamable';
import type { McpRelayedSend } from 'nestjs-mcp-streamable/client';
import type { RemoteOptions } from './remote.options.js';

/** Sends the request of a call. */
export type Send = (
  client: Client,
  args: Record<string, unknown>,
  ...again: Parameters<McpRelayedSend>
) => Promise<object>;

const FRESH = { cacheMode: 'refresh' } as const;

/** Lists all that a server has. */
export async function listedBy(client: Client) {
  const [{ tools }, { resources }, { resourceTemplates }, { prompts }] = await Promise.all([
    client.listTools(undefined, FRESH),
    client.listResources(undefined, FRESH),
    client.listResourceTemplates(undefined, FRESH),
    client.listPrompts(undefined, FRESH),
  ]);
  return { tool: tools, resource: resources, template: resourceTemplates, prompt: prompts };
}

/** What a server lists, by kind. */
export type Listed = Awaited<ReturnType<typeof listedBy>>;
export type Kind = keyof Listed;
type Registration<K extends Kind> = (listed: Listed[K][number], remote: RemoteOptions) => { readonly send: Send };

/** What a handler is registered with, and how it is called. */
export const REGISTRATIONS: { readonly [K in Kind]: Registration<K> } = {
  tool: (tool, { prefix, tool: options }) => ({
    ...tool,
    name: prefix + tool.name,
    inputSchema: unchecked(tool.inputSchema),
    outputSchema: tool.outputSchema && unchecked(tool.outputSchema),
    ...options?.(tool),
    send: async (client, args, params, sent) => {
      const result = await client.callTool({ name: tool.name, arguments: args, ...params }, sent);
      return result.resultType === 'input_required' ? result : toolResult(result);
    },
  }),
  resource: ({ uri, ...resource }) => ({
    uri,
    ...resource,
    send: (client, _, params, sent) => client.readResource({ uri, ...params }, { ...FRESH, ...sent }),
  }),
  template: (template) => ({
    ...template,
    send: (client, { uri }, params, sent) =>
      client.readResource({ uri: String(uri), ...params }, { ...FRESH, ...sent }),
  }),
  prompt: (prompt, { prefix }) => ({
    ...prompt,
    name: prefix + prompt.name,
    send: (client, args, params, sent) =>
      client.getPrompt({ name: prompt.name, arguments: args as Record<string, string>, ...params }, sent),
  }),
};

/** Lets a value pass as it is: the server checks it. */
const unchecked = (schema: object) =>
  fromJsonSchema(schema, {
    getValidator: () => (data) => ({ valid: true, data: data as never, errorMessage: undefined }),
  });
