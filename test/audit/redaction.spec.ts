import { createHash, createHmac } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { McpEndpointHost, McpRegistry } from 'nestjs-mcp-streamable';
import type { McpAuditModuleOptions, McpAuditRecord } from 'nestjs-mcp-streamable/audit';
import type { RawClient } from '../support/raw-client.js';
import { sharedApp } from '../support/test-apps.js';
import { AuditApp } from './audit-app.js';

const SECRET = '4000-1234-hunter2';
const KEY = 'k'.repeat(32);

describe('the arguments in an audit record', () => {
  let it_: AuditApp;
  let client: RawClient;
  const usual = new AuditApp();
  const startUsual = sharedApp(() => usual.start());
  beforeEach(() => {
    it_ = new AuditApp();
  });
  afterEach(async () => {
    if (it_ !== usual) await it_.app.close();
  });

  async function start(options?: McpAuditModuleOptions): Promise<void> {
    if (options) await it_.start(options);
    else {
      it_ = usual;
      await startUsual();
      usual.records.all.length = 0;
      usual.tools.runs.length = 0;
    }
    client = await it_.app.client().initialize();
  }
  async function recorded(name: string, args: object): Promise<Record<string, unknown>> {
    await (await client.call(name, args)).text();
    return it_.records.all.at(-1) as unknown as Record<string, unknown>;
  }
  const sha256 = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`;

  it('lack what the schema of the tool marks with x-mcp-sensitive, at any depth', async () => {
    await start();
    const cards = [1, 2].map(() => ({ holder: 'Ann', number: SECRET }));
    const { arguments: args } = await recorded('refund', { order: 'A', pin: SECRET, cards, by: { iban: SECRET } });
    const hidden = { holder: 'Ann', number: '[redacted]' };
    expect(args).toEqual({ order: 'A', pin: '[redacted]', cards: [hidden, hidden], by: { iban: '[redacted]' } });
    expect(it_.tools.runs[0]).toMatchObject({ pin: SECRET });
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('lack it also where the arguments do not fit the schema', async () => {
    await start();
    const odd = [{ pin: { a: [SECRET] } }, { order: 5, pin: [SECRET] }, { cards: [{ number: { deep: SECRET } }] }];
    for (const args of odd) expect(await recorded('refund', args)).toMatchObject({ outcome: 'failed' });
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('the arguments in an audit record are missing for a tool that does not exist: nothing says what is sensitive in them', async () => {
    await start();
    expect(await recorded('refnd', { pin: SECRET })).not.toHaveProperty('arguments');
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('the arguments in an audit record are missing for a tool that is registered while its call waits for the record: the call is for none', async () => {
    let taken = (): void => {};
    const sink = {
      write(record: McpAuditRecord): Promise<void> | void {
        it_.records.write(record);
        if (record.outcome === 'attempt') return new Promise((resolve) => (taken = resolve));
      },
    };
    await start({ sink, required: true });
    const call = client.call('later', { pin: SECRET, order: 'A' });
    await expect.poll(() => it_.records.gists).toEqual(['attempt later']);
    it_.app.app.get(McpRegistry).registerTool({ name: 'later', handler: () => 'run' });
    taken();
    expect(await (await call).json()).toMatchObject({ error: { code: -32602 } });
    expect(it_.records.gists).toEqual(['attempt later', 'failed later -32602']);
    for (const record of it_.records.all) expect(record).not.toHaveProperty('arguments');
  });

  it('lack what any part of a schema marks: references, patterns, conditions, tuples, other properties', async () => {
    await start();
    const mark = { type: 'string', 'x-mcp-sensitive': true };
    const inputSchema = {
      type: 'object',
      $defs: { 'a/b': mark, node: { type: 'object', properties: { key: mark, next: { $ref: '#/$defs/node' } } } },
      properties: {
        ref: { $ref: '#/$defs/a~1b' },
        tree: { $ref: '#/$defs/node' },
        tuple: { type: 'array', prefixItems: [{ type: 'string' }, mark] },
        list: { type: 'array', items: { anyOf: [{ type: 'number' }, mark] } },
        open: { type: 'object', additionalProperties: mark },
      },
      patternProperties: { '^x_': mark },
      if: { properties: { how: { const: 'card' } } },
      // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
      then: { properties: { number: mark } },
    };
    it_.app.app.get(McpRegistry).registerTool({ name: 'any', inputSchema, handler: () => 'ok' } as never);
    const { arguments: args } = await recorded('any', {
      ref: SECRET,
      tree: { key: SECRET, next: { next: { key: SECRET } } },
      tuple: ['seen', SECRET],
      list: [SECRET, SECRET],
      open: { anything: SECRET, __proto__: SECRET },
      x_1: SECRET,
      number: SECRET,
      seen: 'seen',
    });
    expect(args).toMatchObject({
      tuple: ['seen', '[redacted]'],
      seen: 'seen',
      tree: { next: { next: { key: '[redacted]' } } },
    });
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('lack properties of usual names, and of those that the app gives instead', async () => {
    await start();
    const named = { password: SECRET, deep: [{ 'API-Key': SECRET, access_token: [SECRET] }], maxTokens: 'seen' };
    expect((await recorded('close', named))['arguments']).toEqual({
      password: '[redacted]',
      deep: [{ 'API-Key': '[redacted]', access_token: '[redacted]' }],
      maxTokens: 'seen',
    });
    await it_.app.close();
    await start({ redact: ['cvc'] });
    expect((await recorded('close', { cvc: SECRET, password: 'seen' }))['arguments']).toEqual({
      cvc: '[redacted]',
      password: 'seen',
    });
  });

  it('lack the values of pairs that have such a name, and what texts with JSON have', async () => {
    await start();
    const json = JSON.stringify({ order: 'A', auth: [{ passwd: SECRET }], text: JSON.stringify({ id_token: SECRET }) });
    const { arguments: args } = await recorded('close', {
      headers: [
        { name: 'Authorization', value: SECRET },
        { key: 'order', value: 'A' },
        { Key: 'x-api-key', Value: [SECRET] },
      ],
      pairs: [
        ['cookie', SECRET],
        ['order', 'A'],
      ],
      json,
      odd: `{"password": "${SECRET}", order}`,
      huge: JSON.stringify({ list: 'x'.repeat(70_000), password: SECRET }),
      same: ' { "order" : "A" } ',
    });
    expect(args).toEqual({
      headers: [
        { name: 'Authorization', value: '[redacted]' },
        { key: 'order', value: 'A' },
        { Key: 'x-api-key', Value: '[redacted]' },
      ],
      pairs: [
        ['cookie', '[redacted]'],
        ['order', 'A'],
      ],
      json: '{"order":"A","auth":[{"passwd":"[redacted]"}],"text":"{\\"id_token\\":\\"[redacted]\\"}"}',
      odd: '{"password": "[redacted]", order}',
      huge: expect.stringMatching(/^\[a text of \d+ characters, which may be JSON\]$/),
      same: ' { "order" : "A" } ',
    });
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('lack the passwords and tokens of URLs, also of resources; a template says what else is one', async () => {
    await start();
    const registry = it_.app.app.get(McpRegistry);
    registry.registerResourceTemplate({
      uriTemplate: 'reset://{user}/{resetToken}',
      name: 'reset',
      handler: () => 'ok',
    });
    await recorded('close', {
      url: `https://ann:${SECRET}@host/?order=A&access_token=${SECRET}`,
      text: `Bearer ${SECRET}`,
      [`https://ann:${SECRET}@host`]: 'a key',
    });
    const long = `reset://ann/${SECRET}${'x'.repeat(3_000)}`;
    // They match no template, or are spelled as another client would.
    const spelled = [`reset://ann/%2F${SECRET}`, `RESET://ann/%${SECRET.charCodeAt(0).toString(16)}${SECRET.slice(1)}`];
    // Half of a surrogate pair cannot be escaped.
    spelled.push(`reset://ann/${SECRET}\ud800`);
    for (const uri of [`files://ann:${SECRET}@host/a?token=${SECRET}&b=c`, `reset://ann/${SECRET}`, long, ...spelled]) {
      await (await client.post({ jsonrpc: '2.0', id: uri.length, method: 'resources/read', params: { uri } })).text();
    }
    expect(it_.records.all).toMatchObject([
      { arguments: { url: 'https://ann:[redacted]@host/?order=A&access_token=[redacted]', text: 'Bearer [redacted]' } },
      { outcome: 'failed', name: 'files://ann:[redacted]@host/a?token=[redacted]&b=c' },
      { outcome: 'served', name: 'reset://ann/[redacted]' },
      { outcome: 'failed', name: 'reset:[cut]' },
      { outcome: 'failed', name: 'reset://ann/[redacted]' },
      { outcome: 'served', name: 'reset://ann/[redacted]' },
      { outcome: 'served', name: 'reset://ann/[redacted]' },
    ]);
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('an audit record lacks what the template of a source calls a token', async () => {
    await start({});
    const host = it_.app.app.get(McpEndpointHost, { strict: false });
    const entry = host.entryOf(
      'template',
      { uriTemplate: 'far://{user}/{resetToken}', name: 'far', handler: () => 'ok' },
      'Far',
    );
    host.serve({
      perCaller: () => false,
      find: (key, _call, kind) => (kind === 'resource' && entry.template!.written(key) ? entry : undefined),
      page: () => ({ items: [] }),
    });
    const uri = `far://ann/${SECRET}`;
    await (await client.post({ jsonrpc: '2.0', id: 9, method: 'resources/read', params: { uri } })).text();
    expect(it_.records.all.at(-1)).toMatchObject({ outcome: 'served', name: 'far://ann/[redacted]' });
  });

  it('the arguments in an audit record are what a function of the app returns: it gets a copy without what is sensitive', async () => {
    const seen: unknown[] = [];
    await start({
      redact: (args, call) => {
        seen.push([call.name, { ...args }]);
        delete args['order'];
        return { ...args, order: 'somewhere' };
      },
    });
    expect((await recorded('refund', { order: 'Main Street 5', pin: SECRET }))['arguments']).toEqual({
      order: 'somewhere',
      pin: '[redacted]',
    });
    expect(seen).toEqual([['refund', { order: 'Main Street 5', pin: '[redacted]' }]]);
    expect(it_.tools.runs).toEqual([{ order: 'Main Street 5', pin: SECRET }]);
  });

  const cyclic: Record<string, unknown> = { a: 1 };
  cyclic['self'] = cyclic;
  it.each<[string, () => unknown, unknown]>([
    ['throws', () => raise(), '[redaction failed]'],
    ['returns nothing', () => undefined, undefined],
    ['is async', async () => Promise.resolve({ order: 'later' }), '[redaction failed]'],
    ['is async and fails', async () => Promise.reject(new Error('later')), '[redaction failed]'],
    ['returns what throws when it is read', () => new Proxy({}, { ownKeys: raise }), '[redaction failed]'],
    ['returns an entity', () => ({ at: new Date(0), big: 5n }), { at: '1970-01-01T00:00:00.000Z', big: '[bigint]' }],
    ['returns a cycle', () => cyclic, expect.objectContaining({ a: 1 })],
  ])('the arguments in an audit record are safe when the function %s', async (_, redact, expected) => {
    await start({ redact });
    expect((await recorded('close', { order: SECRET }))['arguments']).toEqual(expected);
    expect(JSON.stringify(it_.records.all)).not.toContain(SECRET);
  });

  it('the arguments in an audit record are those that the client sent, whatever the handler does with them', async () => {
    await start();
    expect((await recorded('close', { order: 'sent' }))['arguments']).toEqual({ order: 'sent' });
  });

  it('the arguments in an audit record are cut where they are long, many, or nested deep', async () => {
    await start({ maxArgumentLength: 200 });
    const long = await recorded('close', { text: 'x'.repeat(100_000), after: 'lost' });
    expect(long).toMatchObject({
      argumentsCut: true,
      arguments: { text: expect.stringMatching(/^x{150,200}…\[cut\]$/) },
    });
    const many = await recorded('close', Object.fromEntries(Array.from({ length: 5_000 }, (_, n) => [`key${n}`, n])));
    expect(JSON.stringify(many['arguments']).length).toBeLessThan(400);
    const list = await recorded('close', { list: Array.from({ length: 5_000 }, () => 'entry') });
    expect(JSON.stringify(list['arguments']).length).toBeLessThan(400);
    expect(list).toMatchObject({ argumentsCut: true, arguments: { list: expect.arrayContaining(['[cut]']) } });
    const deep = await recorded('close', JSON.parse(`${'{"a":'.repeat(400)}1${'}'.repeat(400)}`) as object);
    expect(deep).toMatchObject({ argumentsCut: true });
    expect(JSON.stringify(deep['arguments'])).toContain('[cut]');
  });

  it('the arguments in an audit record may have any keys: nothing of a prototype is read or changed', async () => {
    await start();
    const sent = '{"constructor":{"prototype":{"polluted":1}},"hasOwnProperty":"x","toJSON":"y","order":"z"}';
    const { arguments: args } = await recorded('close', JSON.parse(sent) as object);
    expect(JSON.stringify(args)).toBe(sent);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('the arguments in an audit record are hashed as they are recorded: the hash reveals nothing of what was redacted', async () => {
    await start();
    const one = await recorded('refund', { pin: '1234', order: 'A' });
    const other = await recorded('refund', { order: 'A', pin: '9999' });
    expect(one['argumentsHash']).toBe(sha256('{"order":"A","pin":"[redacted]"}'));
    expect(other['argumentsHash']).toBe(one['argumentsHash']);
  });

  it('the arguments in an audit record are hashed as they were sent with a key, which proves them to one who has it', async () => {
    await start({ hashKey: KEY });
    const one = await recorded('refund', { pin: '1234', order: 'A' });
    const other = await recorded('refund', { order: 'A', pin: '9999' });
    const hmac = createHmac('sha256', KEY).update('{"order":"A","pin":"1234"}').digest('hex');
    expect(one['argumentsHash']).toBe(`hmac-sha256:${hmac}`);
    expect(other['argumentsHash']).not.toBe(one['argumentsHash']);
  });
});

function raise(): never {
  throw new Error('no');
}
