import { Injectable } from '@nestjs/common';
import { McpArgs, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';
import { ModernClient, MODERN } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';

const HEADER_MISMATCH = -32020;
const base64 = (text: string): string => `=?base64?${Buffer.from(text).toString('base64')}?=`;

const called: unknown[] = [];

@Injectable()
class Tools {
  @Tool({ name: 'add', inputSchema: z.object({ a: z.number() }) })
  add(@McpArgs() args: unknown): string {
    called.push(args);
    return 'added';
  }

  @Tool({ name: 'größe' })
  size(): string {
    called.push('größe');
    return 'xl';
  }

  @Tool({
    name: 'query',
    inputSchema: z.object({
      region: z.string().meta({ 'x-mcp-header': 'Region' }).optional(),
      limit: z.int().meta({ 'x-mcp-header': 'Limit' }).optional(),
      exact: z.boolean().meta({ 'x-mcp-header': 'Exact' }).optional(),
      place: z.object({ city: z.string().meta({ 'x-mcp-header': 'City' }) }).optional(),
      text: z.string().optional(),
    }),
  })
  query(@McpArgs() args: unknown): object {
    called.push(args);
    return { args };
  }

  @Resource({ uri: 'app://one', name: 'one' })
  one(): string {
    return 'one';
  }

  @ResourceTemplate({ uriTemplate: 'app://of/{name}', name: 'of' })
  of(): string {
    return 'of';
  }

  @Prompt({ name: 'hi' })
  hi(): string {
    return 'hi';
  }
}

describe.each(ONE_ADAPTER)('the headers of modern requests, on %s', (adapter) => {
  const start = testApps(adapter, { providers: [Tools], shared: true });
  const client = async (): Promise<ModernClient> => {
    called.length = 0;
    return new ModernClient((await start()).url);
  };
  type Headers = Record<string, string | undefined>;

  it.each<[string, Headers, (string | RegExp)[]]>([
    ['MCP-Protocol-Version is missing', { 'mcp-protocol-version': undefined }, ['MCP-Protocol-Version', MODERN]],
    ['MCP-Protocol-Version is another', { 'mcp-protocol-version': '2025-11-25' }, ['2025-11-25', MODERN]],
    ['MCP-Protocol-Version is empty', { 'mcp-protocol-version': '' }, []],
    ['Mcp-Method is missing', { 'mcp-method': undefined }, ['Mcp-Method', 'tools/call']],
    ['Mcp-Method is another', { 'mcp-method': 'tools/list' }, ['tools/list', 'tools/call']],
    ['Mcp-Method has another case', { 'mcp-method': 'Tools/Call' }, ['Tools/Call', 'tools/call']],
    ['Mcp-Method is encoded', { 'mcp-method': base64('tools/call') }, []],
    ['Mcp-Name is missing', { 'mcp-name': undefined }, ['Mcp-Name', 'add']],
    ['Mcp-Name is another', { 'mcp-name': 'query' }, ['query', 'add']],
    ['Mcp-Name has another case', { 'mcp-name': 'Add' }, ['Add', 'add']],
    ['Mcp-Name is badly encoded', { 'mcp-name': '=?base64?%%%?=' }, ['Mcp-Name', '%%%']],
    ['Mcp-Name says another name in base64', { 'mcp-name': base64('query') }, ['query', 'add']],
  ])('M4: a request whose %s is refused, and no handler runs', async (_, headers, says) => {
    const made = await client();
    const response = await made.call('add', { a: 1 }, { id: 3, headers });
    await expectRefusal(response, { status: 400, code: HEADER_MISMATCH, id: 3, says });
    expect(called).toEqual([]);
  });

  it.each<[string, Record<string, unknown>]>([
    ['resources/read', { uri: 'app://one' }],
    ['resources/read', { uri: 'app://of/you' }],
    ['prompts/get', { name: 'hi' }],
  ])('M4: Mcp-Name of %s is checked too', async (method, params) => {
    const made = await client();
    for (const name of [undefined, 'app://two', '']) {
      const response = await made.request(method, params, { id: 3, headers: { 'mcp-name': name } });
      await expectRefusal(response, { status: 400, code: HEADER_MISMATCH, id: 3 });
    }
    expect((await made.request(method, params)).status).toBe(200);
  });

  it('M4: Mcp-Name is decoded before it is compared', async () => {
    const made = await client();
    for (const headers of [{ 'mcp-name': base64('add') }, { 'mcp-name': '  add ' }]) {
      expect((await made.call('add', { a: 1 }, { headers })).status).toBe(200);
    }
    const response = await made.call('größe', {}, { headers: { 'mcp-name': base64('größe') } });
    expect(response.status).toBe(200);
    const raw = await made.call('größe', {}, { id: 2, headers: { 'mcp-name': 'größe' } });
    await expectRefusal(raw, { status: 400, code: HEADER_MISMATCH, id: 2 });
    expect(called).toEqual([{ a: 1 }, { a: 1 }, 'größe']);
  });

  it('M4: methods that name nothing need no Mcp-Name', async () => {
    const made = await client();
    for (const method of ['tools/list', 'server/discover', 'resources/templates/list']) {
      expect((await made.request(method)).status).toBe(200);
    }
  });

  it('M4: the headers of subscriptions/listen are checked as those of other requests', async () => {
    const made = await client();
    const params = { notifications: { toolsListChanged: true } };
    const response = await made.request('subscriptions/listen', params, { id: 3, headers: { 'mcp-method': 'x' } });
    await expectRefusal(response, { status: 400, code: HEADER_MISMATCH, id: 3 });
  });

  it('M4: a request with two lines of one header is refused', async () => {
    const made = await client();
    const message = made.message('tools/call', { name: 'add', arguments: { a: 1 } }, { id: 3 });
    for (const name of ['mcp-method', 'mcp-name', 'mcp-protocol-version']) {
      const right = made.headersOf(message);
      const headers = { ...right, [name]: [right[name]!, right[name]!] } as unknown as Record<string, string>;
      await expectRefusal(await made.post(message, headers), { status: 400, code: HEADER_MISMATCH, id: 3 });
    }
    expect(called).toEqual([]);
  });

  it('M4: the schema of a tool declares which arguments are in headers', async () => {
    const made = await client();
    const { result } = await made.ask('tools/list');
    const { properties } = result.tools.find(({ name }: { name: string }) => name === 'query').inputSchema;
    expect(properties.region).toMatchObject({ type: 'string', 'x-mcp-header': 'Region' });
  });

  const region = { 'mcp-param-region': 'eu' };
  it.each<[string, object, Headers]>([
    ['a text', { region: 'eu' }, region],
    ['a text in base64', { region: 'eu' }, { 'mcp-param-region': base64('eu') }],
    ['a text that is not ASCII', { region: 'Übersee' }, { 'mcp-param-region': base64('Übersee') }],
    ['an integer', { limit: 10 }, { 'mcp-param-limit': '10' }],
    ['an integer written otherwise', { limit: 10 }, { 'mcp-param-limit': '10.0' }],
    ['a boolean', { exact: false }, { 'mcp-param-exact': 'false' }],
    ['a member of an object', { place: { city: 'Bonn' } }, { 'mcp-param-city': 'Bonn' }],
    [
      'several',
      { region: 'eu', limit: 0, exact: true },
      { ...region, 'mcp-param-limit': '0', 'mcp-param-exact': 'true' },
    ],
    ['none that is there', { text: 'x' }, {}],
    ['one that is declared nowhere', { text: 'x' }, { 'mcp-param-text': 'y' }],
  ])('M4: a Mcp-Param-* header that equals the argument is accepted: %s', async (_, args, headers) => {
    const made = await client();
    const response = await made.call('query', args, { headers });
    expect(response.status).toBe(200);
    expect((await response.json()).result.structuredContent).toEqual({ args });
  });

  it.each<[string, object, Headers, (string | RegExp)[]]>([
    ['missing', { region: 'eu' }, {}, ['Mcp-Param-Region', 'eu']],
    ['different', { region: 'eu' }, { 'mcp-param-region': 'us' }, ['Mcp-Param-Region', 'us', 'eu']],
    ['badly encoded', { region: 'eu' }, { 'mcp-param-region': '=?base64?ZXV?=' }, ['Mcp-Param-Region']],
    ['another integer', { limit: 10 }, { 'mcp-param-limit': '11' }, ['Mcp-Param-Limit', '11', '10']],
    ['an integer in words', { limit: 10 }, { 'mcp-param-limit': 'ten' }, ['Mcp-Param-Limit']],
    ['a boolean in another case', { exact: true }, { 'mcp-param-exact': 'True' }, ['Mcp-Param-Exact']],
    ['missing for a member of an object', { place: { city: 'Bonn' } }, {}, ['Mcp-Param-City', 'place.city']],
    ['one of two', { region: 'eu', limit: 10 }, region, ['Mcp-Param-Limit']],
  ])('M4: a Mcp-Param-* header that differs from the argument is refused: %s', async (_, args, headers, says) => {
    const made = await client();
    const response = await made.call('query', args, { id: 3, headers });
    await expectRefusal(response, { status: 400, code: HEADER_MISMATCH, id: 3, says });
    expect(called).toEqual([]);
  });

  it('M4: an argument that is null or fails its schema is refused by the schema, not by its header', async () => {
    const made = await client();
    for (const args of [{ region: null }, { region: { a: 1 } }, { place: 7 }]) {
      const { result } = await made.ask('tools/call', { name: 'query', arguments: args });
      expect(result.isError).toBe(true);
    }
    expect(called).toEqual([]);
  });

  it('M4: a tool that is registered while the app runs has its headers checked too, until it is removed', async () => {
    const app = await start();
    const made = new ModernClient(app.url);
    const inputSchema = { type: 'object', properties: { zone: { type: 'string', 'x-mcp-header': 'Zone' } } };
    const entry = registryOf(app).registerTool({ name: 'late', inputSchema, handler: () => 'late' });
    const refused = await made.call('late', { zone: 'a' }, { id: 3 });
    await expectRefusal(refused, { status: 400, code: HEADER_MISMATCH, id: 3, says: ['Mcp-Param-Zone'] });
    const served = await made.call('late', { zone: 'a' }, { headers: { 'mcp-param-zone': 'a' } });
    expect((await served.json()).result.content[0].text).toBe('late');
    entry.remove();
    expect((await (await made.call('late', { zone: 'a' })).json()).error.code).toBe(-32602);
  });

  it('M4: sessions need none of these headers', async () => {
    const app = await start();
    called.length = 0;
    const legacy = await app.client().initialize();
    expect((await legacy.call('query', { region: 'eu' })).status).toBe(200);
    expect(called).toEqual([{ region: 'eu' }]);
  });
});
