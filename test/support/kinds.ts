import type { Client } from '@modelcontextprotocol/client';
import type { RawClient } from './raw-client.js';

/** What handlers are: each has its own way to be declared, listed and asked for. */
export type Kind = 'tool' | 'resource' | 'template' | 'prompt';
export const KINDS: readonly Kind[] = ['tool', 'resource', 'template', 'prompt'];

interface Request {
  method: string;
  params: Record<string, unknown>;
}

/**
 * Names of the handlers of a host: a tool and a prompt called as the host is, the resource `<host>://fixed`, the template
 * `<host>://{id}/of`.
 */
export function nameOf(kind: Kind, host: string): string {
  return { tool: host, resource: `${host}://fixed`, template: `${host}://{id}/of`, prompt: host }[kind];
}

/** What asks a handler to run. Tools and prompts take the arguments, a template `id` alone. */
export function asking(kind: Kind, host: string, args: { id?: string; [name: string]: unknown } = {}): Request {
  switch (kind) {
    case 'tool':
      return { method: 'tools/call', params: { name: host, arguments: args } };
    case 'prompt':
      return { method: 'prompts/get', params: { name: host, arguments: args } };
    case 'resource':
      return { method: 'resources/read', params: { uri: `${host}://fixed` } };
    case 'template':
      return { method: 'resources/read', params: { uri: `${host}://${args.id ?? '7'}/of` } };
  }
}

/** The text of what a handler returned, whichever kind it is. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
export function resultText(result: any): string {
  return (result.content ?? result.contents ?? [result.messages[0].content])[0].text as string;
}

/** Asks a handler as a client does. @returns its text @throws ProtocolError */
export async function askOfficially(client: Client, kind: Kind, host: string, args = {}): Promise<string> {
  const { params } = asking(kind, host, args);
  switch (kind) {
    case 'tool':
      return resultText(await client.callTool(params as never));
    case 'prompt':
      return resultText(await client.getPrompt(params as never));
    default:
      return resultText(await client.readResource(params as never));
  }
}

/** How a handler is asked over raw HTTP. */
export function messageOf(
  client: RawClient,
  kind: Kind,
  host: string,
  args = {},
): Request & { jsonrpc: '2.0'; id: number } {
  return { jsonrpc: '2.0', id: client.nextId(), ...asking(kind, host, args) };
}

/** How a list is asked for, and where it is in the answer. */
export const LISTS: Readonly<Record<Kind, { method: string; field: string; key: string }>> = {
  tool: { method: 'tools/list', field: 'tools', key: 'name' },
  resource: { method: 'resources/list', field: 'resources', key: 'uri' },
  template: { method: 'resources/templates/list', field: 'resourceTemplates', key: 'uriTemplate' },
  prompt: { method: 'prompts/list', field: 'prompts', key: 'name' },
};

/** One page of a list. */
interface Page {
  names: string[];
  nextCursor: string | undefined;
}

/** Asks for one page of a list. @throws what is no result */
export async function page(
  client: RawClient,
  kind: Kind,
  { cursor, headers }: { cursor?: string | undefined; headers?: Record<string, string> } = {},
): Promise<Page> {
  const { method, field, key } = LISTS[kind];
  const params = cursor === undefined ? {} : { cursor };
  const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params }, headers);
  const { result, ...refusal } = await response.json();
  if (!result) throw new Error(`${method}: ${response.status} ${JSON.stringify(refusal)}`);
  const names = (result[field] as Record<string, string>[]).map((entry) => entry[key]!);
  return { names, nextCursor: result.nextCursor as string | undefined };
}
