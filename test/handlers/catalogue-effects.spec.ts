import { Injectable } from '@nestjs/common';
import {
  type McpCaller,
  McpCatalogue,
  type McpCatalogueTool,
  McpConfirmations,
  type McpContext,
  McpRegistry,
  McpStreamableModule,
  McpToolCaller,
} from 'nestjs-mcp-streamable';
import { beforeEach, describe, expect, it } from 'vitest';
import { serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { sharedApp } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';

/** What a test lets `list()` return. */
let lists: (caller: McpCaller) => readonly unknown[];
const ran: string[] = [];

class Listing {
  list(caller: McpCaller): McpCatalogueTool[] {
    return lists(caller) as McpCatalogueTool[];
  }
  call(name: string, _args: object, ctx: McpContext): string {
    ran.push(`${name} of ${ctx.principal}`);
    return `run ${ran.length}`;
  }
}
@McpCatalogue()
@Injectable()
class Plugins extends Listing {}

/** Has the tool `pay` for those who have no tool of this name in the other catalogue. */
@McpCatalogue()
@Injectable()
class Others extends Listing {
  override list(): McpCatalogueTool[] {
    return [pay];
  }
}

const texts = (...names: string[]): object => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
});
const refund = {
  name: 'refund',
  inputSchema: { type: 'object', properties: { amount: { type: 'integer' }, customer: { type: 'string' } } },
  confirm: 'Refund {amount} to {customer}?',
};
const pay = { name: 'pay', inputSchema: texts('id', 'to'), idempotency: { argument: 'id' } } as McpCatalogueTool;

type Client = Pick<ModernClient, 'ask'>;
type Asked = { key: string; message: string; requestState: string };

describe('a tool of a catalogue with effects', () => {
  let app: TestApp;
  let asked: string[];
  const launch = sharedApp(() => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard] })];
    return TestApp.of('fastify', { imports, providers: [Plugins, Others] });
  });
  let keys = 0;
  beforeEach(async () => {
    ran.length = 0;
    asked = [];
    lists = () => [refund, pay];
    app = await launch();
    changed();
  });
  const changed = (): void => app.app.get(McpRegistry).changed(Plugins);
  const client = (user?: string): Client => new ModernClient(app.url, user === undefined ? {} : as(user));
  /** Keys of other tests are another's. */
  const freshKey = (): string => `key ${++keys}`;
  const call = async (name: string, args: object, principal = 'ann', answer = 'accept'): Promise<string> => {
    const elicit = ({ message }: { message: string }) => {
      asked.push(message);
      return { action: answer as 'accept' };
    };
    const { content } = await app.app.get(McpToolCaller).callTool(name, { ...args }, { principal, elicit });
    return (content[0] as { text: string }).text;
  };
  /** Sends a call, and expects the question. */
  const question = async (by: Client, name: string, args: object): Promise<Asked> => {
    const params = { name, arguments: args };
    const { result } = await by.ask('tools/call', params, { capabilities: { elicitation: {} } });
    expect(result.resultType).toBe('input_required');
    const [[key, request]] = Object.entries<{ params: { message: string } }>(result.inputRequests) as [
      [string, { params: { message: string } }],
    ];
    return { key, message: request.params.message, requestState: result.requestState };
  };
  const confirmed = async (by: Client, name: string, args: object, { key, requestState }: Asked): Promise<string> => {
    const inputResponses = { [key]: { action: 'accept' } };
    const params = { name, arguments: args, inputResponses, requestState };
    const { result, error } = await by.ask('tools/call', params, { capabilities: { elicitation: {} } });
    return result?.content[0].text ?? error.message;
  };
  const remarks = (): string[] => app.log.texts().filter((line) => line.includes('A tool is left out'));

  it('D44: a tool of a catalogue with a confirmation asks by its text and the arguments, and runs only if the user agrees', async () => {
    const args = { amount: 12, customer: 'Ann' };
    expect(await call('refund', args, 'ann', 'decline')).toContain('declined');
    expect(ran).toEqual([]);
    expect(await call('refund', args)).toBe('run 1');
    expect(asked).toEqual(Array(2).fill('Refund 12 to "Ann"?'));
    const { isError } = await app.app.get(McpToolCaller).callTool('refund', args, { principal: 'ann' });
    expect(isError).toBe(true);
    expect(ran).toEqual(['refund of ann']);
  });

  it('D45: a text asks with values that neither look like a part of it, nor hide one', async () => {
    lists = () => [
      {
        name: 'send',
        inputSchema: { type: 'object', properties: { to: {} } },
        confirm: 'Send to {to}?',
      },
    ];
    const values: [unknown, string][] = [
      ['Bob"? It is free. "', '"Bob\\"? It is free. \\""'],
      ['Bob\n\nAll is well', '"Bob\\n\\nAll is well"'],
      ['Bob\u202e\u2028\u200b', '"Bob\\u202e\\u2028\\u200b"'],
      ['{to}', '"{to}"'],
      ['$&$1', '"$&$1"'],
      ['', '""'],
      ['(nothing)', '"(nothing)"'],
      [undefined, '(nothing)'],
      [null, 'null'],
      [true, 'true'],
      [0.5, '0.5'],
      [{ id: 7, of: ['a\u202eb'] }, '{"id":7,"of":["a\\u202eb"]}'],
    ];
    for (const [to] of values) await call('send', to === undefined ? {} : { to });
    expect(asked).toEqual(values.map(([, shown]) => `Send to ${shown}?`));
  });

  it('D45: a text asks for arguments of any name, and for no property of prototypes', async () => {
    const properties = JSON.parse('{"__proto__":{},"constructor":{},"a b":{},"$1":{}}') as object;
    lists = () => [
      { name: 'odd', inputSchema: { type: 'object', properties }, confirm: '{__proto__} {constructor} {a b} {$1} } {' },
    ];
    await call('odd', {});
    await call('odd', JSON.parse('{"a b":"x","$1":"y","constructor":"z"}') as object);
    expect(asked).toEqual(['(nothing) (nothing) (nothing) (nothing) } {', '(nothing) "z" "x" "y" } {']);
  });

  it('D45: a question that would be too long is not asked, and the tool does not run', async () => {
    lists = () => [
      { name: 'long', inputSchema: { type: 'object', properties: { a: {} } }, confirm: '{a}'.repeat(1_000) },
    ];
    for (const a of ['x'.repeat(1_000_000), Array(50_000).fill(1), 'xx\u202e'.repeat(500)]) {
      expect(await call('long', { a })).toContain('more than 4000 characters');
    }
    await call('long', { a: 1 });
    expect(asked).toEqual(['1'.repeat(1_000)]);
    expect(ran).toHaveLength(1);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['a place without an argument', { confirm: 'Delete {id} of {constructor}?' }, 'has the place {constructor}'],
    ['an empty place', { confirm: 'Delete {}?' }, 'has the place {}'],
    ['a confirmation without a text', { confirm: ' ' }, 'its "confirm" cannot be used'],
    ['a confirmation that is only options', { confirm: { ttlMs: 1_000 } }, 'its "confirm" has no "message"'],
    ['a text that is too long', { confirm: 'x'.repeat(4_001) }, 'its "confirm" has 4001 characters'],
    ['a number as the text', { confirm: 7 }, 'its "confirm" cannot be used'],
    ['a function as the text', { confirm: () => 'Sure?' }, 'its "confirm" is a function'],
    ['a key of prototypes', { confirm: JSON.parse('{"message":"a","__proto__":{}}') }, '"confirm.__proto__"'],
    ['a page without an address', { confirm: { message: 'a', whenUnable: 'url' } }, 'without "url"'],
    ['an address without the id', { confirm: { message: 'a', whenUnable: 'url', url: 'https://a.test/' } }, '{id}'],
    ['a relative address', { confirm: { message: 'a', whenUnable: 'url', url: '/{id}' } }, 'absolute'],
    ['a key that no argument is', { idempotency: { argument: 'key' } }, 'names the argument "key"'],
    ['a key of a number', { idempotency: { argument: 'count' } }, 'which is of the type "integer"'],
    ['no key', { idempotency: {} }, 'neither "key" nor "argument"'],
    ['a function as the key', { idempotency: { key: () => 'a' } }, 'its "key" is a function'],
  ])('D44: a tool of a catalogue with %s is left out, and the log says why', async (_what, options, reason) => {
    const properties = { id: { type: 'string' }, count: { type: 'integer' } };
    lists = () => [{ name: 'bad', inputSchema: { type: 'object', properties }, ...options }, refund];
    const tools = await app.app.get(McpToolCaller).listTools({ principal: 'ann' });
    expect(tools.map(({ name }) => name)).toEqual(['refund', 'pay']);
    expect(remarks()).toEqual([expect.stringContaining(reason)]);
  });

  it('D44: two callers who have different tools of one name are asked by their own texts', async () => {
    lists = ({ principal }) => [
      { ...refund, confirm: principal === 'ann' ? 'Ann pays {amount}?' : 'Bob pays {amount}, says {customer}?' },
    ];
    await call('refund', { amount: 1, customer: 'x' }, 'ann');
    await call('refund', { amount: 2, customer: 'y' }, 'bob');
    await call('refund', { amount: 3 }, 'ann');
    expect(asked).toEqual(['Ann pays 1?', 'Bob pays 2, says "y"?', 'Ann pays 3?']);
  });

  it('D44: two callers who share a tool are asked about their own arguments, and one cannot answer for the other', async () => {
    const [ann, bob] = [client('ann'), client('bob')];
    const [hers, his] = [await question(ann, 'refund', { amount: 1 }), await question(bob, 'refund', { amount: 2 })];
    expect([hers.message, his.message]).toEqual(['Refund 1 to (nothing)?', 'Refund 2 to (nothing)?']);
    await confirmed(bob, 'refund', { amount: 1 }, hers);
    expect(ran).toEqual([]);
    expect(await confirmed(ann, 'refund', { amount: 1 }, hers)).toBe('run 1');
    expect(await confirmed(bob, 'refund', { amount: 2 }, his)).toBe('run 2');
  });

  it('D45: a confirmation counts for the text that was asked: one of a tool whose text has changed meanwhile does not run it', async () => {
    const ann = client('ann');
    const args = { amount: 1, customer: 'Ann' };
    const before = await question(ann, 'refund', args);
    lists = () => [{ ...refund, confirm: 'Send {amount} to {customer}?' }];
    changed();
    expect(await confirmed(ann, 'refund', args, before)).toContain('has changed since the user was asked');
    expect(ran).toEqual([]);
    const after = await question(ann, 'refund', args);
    expect(after.message).toBe('Send 1 to "Ann"?');
    lists = () => [{ ...refund, confirm: 'Send {amount} to {customer}?', description: 'Another description' }];
    changed();
    expect(await confirmed(ann, 'refund', args, after)).toBe('run 1');
  });

  it('D44: a confirmation of a tool that the list has lost meanwhile runs nothing', async () => {
    const ann = client('ann');
    const before = await question(ann, 'refund', { amount: 1 });
    lists = () => [];
    changed();
    expect(await confirmed(ann, 'refund', { amount: 1 }, before)).toContain('not found');
    expect(ran).toEqual([]);
  });

  it('D44: a tool of a catalogue sends users whose client cannot ask to the page that its text names', async () => {
    const url = 'https://shop.test/confirm/{id}?from=mcp';
    let message = 'Refund {amount}?';
    lists = () => [{ ...refund, confirm: { message, whenUnable: 'url', url } }];
    const once = async () => {
      const { result } = await client('ann').ask('tools/call', { name: 'refund', arguments: { amount: 1 } });
      return result.content[0].text as string;
    };
    const pageOf = (text: string): string => /https:\/\/shop\.test\/confirm\/(\w+)\?from=mcp/.exec(text)![1]!;
    const page = pageOf(await once());
    const pages = app.app.get(McpConfirmations);
    expect(await pages.find(page, 'ann')).toMatchObject({ tool: 'refund', message: 'Refund 1?' });
    expect(await pages.find(page, 'bob')).toBeUndefined();
    await pages.answer(page, 'ann', 'accept');
    // What was confirmed for another text does not count.
    message = 'Pay out {amount}?';
    changed();
    expect(pageOf(await once())).not.toBe(page);
    expect(ran).toEqual([]);
    message = 'Refund {amount}?';
    changed();
    expect(await once()).toBe('run 1');
  });

  it('D44: a tool of a catalogue with a key runs once for each caller, also when its description has changed', async () => {
    const args = { id: freshKey(), to: 'x' };
    expect(await call('pay', args, 'ann')).toBe('run 1');
    lists = () => [{ ...pay, description: 'Another description' }];
    changed();
    expect(await call('pay', args, 'ann')).toBe('run 1');
    expect(await call('pay', args, 'bob')).toBe('run 2');
    expect(await call('pay', { ...args, to: 'y' }, 'ann')).toContain('other arguments');
    expect(ran).toEqual(['pay of ann', 'pay of bob']);
  });

  it('D44: a key is one of the catalogue: a tool of another one that has the name now does not answer with results of the first', async () => {
    const args = { id: freshKey() };
    expect(await call('pay', args)).toBe('run 1');
    lists = () => [];
    changed();
    expect(await call('pay', args)).toBe('run 2');
    expect(await call('pay', args)).toBe('run 2');
    lists = () => [pay];
    changed();
    expect(await call('pay', args)).toBe('run 1');
  });

  it('D44: a repeat of a call of a catalogue gets the result without a question', async () => {
    lists = () => [{ ...pay, confirm: 'Pay {to}?', maxConcurrent: 1, timeoutMs: 60_000 }];
    const args = { id: freshKey(), to: 'Bob' };
    expect(await call('pay', args, 'ann', 'decline')).toContain('declined');
    expect(await call('pay', args)).toBe('run 1');
    expect(await call('pay', args, 'ann', 'decline')).toBe('run 1');
    expect(asked).toEqual(['Pay "Bob"?', 'Pay "Bob"?']);
  });
});
