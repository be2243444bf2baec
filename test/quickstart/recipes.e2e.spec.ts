import type { Client } from '@modelcontextprotocol/client';
import { Module } from '@nestjs/common';
import { McpStreamableModule, McpToolCaller } from 'nestjs-mcp-streamable';
import { serveMcpStdio } from 'nestjs-mcp-streamable/stdio';
import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import { AppModule as LimitedApp } from '../../examples/snippets/rate-limits.js';
import { Users } from '../../examples/snippets/token.guard.js';
import { AppModule as ToolsetsApp, MaintenanceTools } from '../../examples/snippets/toolsets.js';
import { ONE_ADAPTER } from '../support/adapters.js';
import { call, closeOpened, connect, start, urlOf } from './snippet-apps.js';
import { modernMeta } from '../support/modern-client.js';

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'maintenance', version: '1.0.0' } })],
  providers: [MaintenanceTools],
})
class MaintenanceApp {}

afterEach(closeOpened);

const ERAS = ['legacy', 'modern'] as const;

const toolsOf = async (client: Client): Promise<string[]> =>
  (await client.listTools()).tools.map(({ name }) => name).toSorted();

describe.each(ONE_ADAPTER)('the recipes, on %s', (adapter) => {
  it.each(ERAS)('rate limits: by principal and by tool, and lists do not count (%s)', async (era) => {
    const app = await start(LimitedApp, adapter);
    const known: Record<string, string> = { 'Bearer a': 'ann', 'Bearer b': 'bob' };
    app.get(Users, { strict: false }).findByToken = async (token) =>
      known[token!] === undefined ? undefined : { id: known[token!]!, tenant: 'acme' };
    const url = await urlOf(app);
    const ann = await connect(url, { authorization: 'Bearer a' }, era);
    for (let times = 0; times < 2; times++) expect(await call(ann, 'make_report')).toBe('Report 8');
    const refused = await ann.callTool({ name: 'make_report', arguments: {} });
    expect(refused).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/^At most 2 calls a minute\. Try again in \d+ seconds/) }],
    });
    // A client of the same principal is no other caller.
    const annAgain = await connect(url, { authorization: 'Bearer a' }, era);
    expect(await call(annAgain, 'make_report')).toContain('At most 2');
    expect(await call(ann, 'find_report')).toBe('Report 7');
    const bob = await connect(url, { authorization: 'Bearer b' }, era);
    expect(await call(bob, 'make_report')).toBe('Report 8');
    // Of 100 calls a minute, 99 are left: lists were none.
    for (let times = 0; times < 5; times++) await ann.listTools();
    for (let times = 1; times < 100; times++) expect(await call(ann, 'find_report')).toBe('Report 7');
    expect(await call(ann, 'find_report')).toContain('At most 100');
  });

  it.each(ERAS)('toolsets: by the query of the URL, or a header (%s)', async (era) => {
    const connectTo = (to: string, headers = {}): Promise<Client> => connect(to, headers, era);
    const url = await urlOf(await start(ToolsetsApp, adapter));
    expect(await toolsOf(await connectTo(url))).toEqual(['help', 'invite', 'refund']);
    const billing = await connectTo(`${url}?toolset=billing`);
    expect(await toolsOf(billing)).toEqual(['help', 'refund']);
    expect(await call(billing, 'refund')).toBe('Refunded.');
    await expect(billing.callTool({ name: 'invite', arguments: {} })).rejects.toThrow('Tool "invite" not found');
    expect(await toolsOf(await connectTo(`${url}?toolset=billing,users`))).toEqual(['help', 'invite', 'refund']);
    expect(await toolsOf(await connectTo(url, { 'x-toolset': 'users' }))).toEqual(['help', 'invite']);
    // As lists in headers are written.
    const both = await connectTo(url, { 'x-toolset': 'billing, users' });
    expect(await toolsOf(both)).toEqual(['help', 'invite', 'refund']);
    expect(await toolsOf(await connectTo(`${url}?toolset=`))).toEqual(['help', 'invite', 'refund']);
  });

  it('toolsets: callers from within the app have no URL, and all tools', async () => {
    const tools = (await start(ToolsetsApp, adapter)).get(McpToolCaller, { strict: false });
    expect(await tools.callTool('refund')).toEqual({ content: [{ type: 'text', text: 'Refunded.' }] });
    const request = { query: { toolset: 'users' } };
    await expect(tools.callTool('refund', {}, { request })).rejects.toThrow('Tool "refund" not found');
  });

  it('toolsets: so have clients over stdio', async () => {
    const [input, output] = [new PassThrough(), new PassThrough({ encoding: 'utf8' })];
    const app = await start(ToolsetsApp, adapter);
    const { closed } = await serveMcpStdio(app, { input, output });
    input.end(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: modernMeta() } })}\n`);
    await closed;
    const { result } = JSON.parse(output.read() as string) as { result: { tools: { name: string }[] } };
    expect(result.tools.map(({ name }) => name)).toEqual(['refund', 'invite', 'help']);
  });

  it('toolsets: switched on and off for all, and sessions are told', async () => {
    const app = await start(MaintenanceApp, adapter);
    const client = await connect(await urlOf(app));
    const told = new Promise((resolve) => client.setNotificationHandler('notifications/tools/list_changed', resolve));
    app.get(MaintenanceTools).enable();
    expect(await toolsOf(client)).toEqual(['reindex', 'vacuum']);
    await told;
    expect(await call(client, 'vacuum')).toBe('vacuum is done.');
    app.get(MaintenanceTools).disable();
    expect(await toolsOf(client)).toEqual([]);
  });
});
