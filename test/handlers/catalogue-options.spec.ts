import { Injectable } from '@nestjs/common';
import {
  type McpCaller,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpRegistry,
  McpSessionService,
  McpStreamableModule,
  McpToolCaller,
} from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { gate, serverInfo, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { eventually, sharedApp } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';

/** What a test lets `list()` return. */
let lists: (caller: McpCaller) => readonly unknown[];
/** What has run, in order, and what it waits for. */
const ran: string[] = [];
const doors = new Map<string, ReturnType<typeof gate<string>>>();

function door(label: string): ReturnType<typeof gate<string>> {
  let found = doors.get(label);
  if (!found) doors.set(label, (found = gate()));
  return found;
}

class Listing {
  list(caller: McpCaller): McpCatalogueTool[] {
    return lists(caller) as McpCatalogueTool[];
  }
  call(name: string, { label }: { label?: string }, ctx: McpContext): unknown {
    ran.push(`${label ?? name} of ${ctx.principal}`);
    return label === undefined ? `${name} of ${ctx.principal}` : door(label).promise;
  }
}
@McpCatalogue()
@Injectable()
class Plugins extends Listing {}

/** Has the same tools under the same names. */
@McpCatalogue()
@Injectable()
class Others extends Listing {
  override list({ principal }: McpCaller): McpCatalogueTool[] {
    return principal === 'other' ? [{ name: 'slow', maxConcurrent: 1 }] : [];
  }
}

describe('the options of a tool of a catalogue', () => {
  let app: TestApp;
  let tools: McpToolCaller;
  const clock = new ManualClock();
  const launch = sharedApp(() => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard] })];
    return TestApp.of('fastify', { imports, providers: [Plugins, Others] }, undefined, clock);
  });
  beforeEach(async () => {
    ran.length = 0;
    doors.clear();
    lists = () => [];
    app = await launch();
    tools = app.app.get(McpToolCaller);
    changed();
  });
  const changed = (): void => app.app.get(McpRegistry).changed(Plugins);
  const call = async (principal: string, label: string, name = 'slow'): Promise<string> => {
    const { content } = await tools.callTool(name, { label }, { principal });
    return (content[0] as { text: string }).text;
  };
  const listed = async (principal: string): Promise<string[]> =>
    (await tools.listTools({ principal })).map(({ name }) => name);
  const remarks = (): string[] => app.log.texts().filter((line) => line.includes('A tool is left out'));
  /** Waits until so many calls are there, those that wait included. */
  const inFlight = async (count: number): Promise<void> => {
    const sessions = app.app.get(McpSessionService);
    await eventually(async () => expect((await sessions.counts()).inFlight).toBe(count));
    await clock.advance(0);
  };

  it('D44: the places of a tool of a catalogue count the calls of all callers who have it', async () => {
    lists = () => [{ name: 'slow', maxConcurrent: 1 }];
    const first = call('ann', 'a');
    await eventually(() => expect(ran).toEqual(['a of ann']));
    const second = call('bob', 'b');
    await inFlight(2);
    expect(ran).toHaveLength(1);
    door('a').open('done');
    door('b').open('done too');
    expect(await Promise.all([first, second])).toEqual(['done', 'done too']);
  });

  it('D44: the places of a tool of a catalogue are kept when its description, its limit or its list changes', async () => {
    let version = 1;
    lists = () => [{ name: 'slow', description: `Version ${version}`, maxConcurrent: version === 2 ? 2 : 1 }];
    const calls = [call('ann', 'a')];
    await eventually(() => expect(ran).toHaveLength(1));
    version = 2;
    changed();
    calls.push(call('bob', 'b'));
    await eventually(() => expect(ran).toEqual(['a of ann', 'b of bob']));
    version = 3;
    changed();
    calls.push(call('cid', 'c'));
    await inFlight(3);
    expect(ran).toHaveLength(2);
    door('a').open('1');
    await calls[0];
    await clock.advance(0);
    expect(ran).toHaveLength(2);
    door('b').open('2');
    door('c').open('3');
    expect(await Promise.all(calls)).toEqual(['1', '2', '3']);
  });

  it('D44: the places of a tool of a catalogue are those of its class: an equal tool of another catalogue has its own', async () => {
    lists = () => [{ name: 'slow', maxConcurrent: 1 }];
    const calls = [call('ann', 'a')];
    await eventually(() => expect(ran).toHaveLength(1));
    lists = () => [];
    changed();
    calls.push(call('other', 'b'));
    await eventually(() => expect(ran).toEqual(['a of ann', 'b of other']));
    for (const label of ['a', 'b']) door(label).open(label);
    expect(await Promise.all(calls)).toEqual(['a', 'b']);
  });

  it('D44: the places of each principal are its own, also where all callers share the tool', async () => {
    lists = () => [{ name: 'slow', maxConcurrent: { max: 1, per: 'principal' } }];
    const calls = [call('ann', 'a'), call('ann', 'a2')];
    await inFlight(2);
    calls.push(call('bob', 'b'));
    await eventually(() => expect(ran).toEqual(['a of ann', 'b of bob']));
    for (const label of ['b', 'a', 'a2']) door(label).open(label);
    expect(await Promise.all(calls)).toEqual(['a', 'a2', 'b']);
  });

  it('D44: a call that waits for a place goes on with the tool that it has found, though the list has lost it', async () => {
    lists = () => [{ name: 'slow', maxConcurrent: 1 }];
    const calls = [call('ann', 'a'), call('ann', 'b')];
    await inFlight(2);
    lists = () => [];
    changed();
    await expect(call('ann', 'c')).rejects.toThrow('not found');
    for (const label of ['a', 'b']) door(label).open(label);
    expect(await Promise.all(calls)).toEqual(['a', 'b']);
    expect(ran).toEqual(['a of ann', 'b of ann']);
  });

  it('D44: two callers who have different tools of one name get the limits of their own', async () => {
    lists = ({ principal }) => [
      principal === 'ann'
        ? { name: 'slow', timeoutMs: 1_000 }
        : { name: 'slow', timeoutMs: 5_000, maxResultBytes: 100 },
    ];
    const calls = [call('ann', 'a'), call('bob', 'b')];
    await eventually(() => expect(ran).toHaveLength(2));
    await clock.advance(1_000);
    expect(await calls[0]).toContain('did not finish within 1000 ms');
    door('b').open('x'.repeat(200));
    expect(await calls[1]).toContain('the maximum is 100');
    door('a').open('too late');
  });

  it('D44: a tool of a catalogue has a limit for values, and a view, as a decorated tool has them', async () => {
    const inputSchema = { type: 'object', properties: { ids: { type: 'array' } } };
    const ui = { resourceUri: 'ui://orders/list', visibility: ['app'] };
    lists = () => [
      { name: 'few', inputSchema, maxValues: 5, ui },
      { name: 'many', inputSchema },
    ];
    const ids = Array.from({ length: 10 }, (_, id) => id);
    const ann = new ModernClient(app.url, as('ann'));
    const { result } = await ann.ask('tools/call', { name: 'few', arguments: { ids } });
    expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringContaining('more than 5 values') }] });
    expect((await ann.ask('tools/call', { name: 'many', arguments: { ids } })).result.isError).toBeUndefined();
    const [few] = (await ann.ask('tools/list')).result.tools;
    expect(few._meta.ui).toEqual(ui);
  });

  it.each<[string, Record<string, unknown>, string]>([
    ['a limit of 0', { maxConcurrent: 0 }, 'its "maxConcurrent" such a number'],
    ['places of a user', { maxConcurrent: { max: 1, per: 'user' } }, '"maxConcurrent.per"'],
    [
      'an unknown part',
      { maxConcurrent: { max: 1, per: 'principal', of: 2 } },
      'There is no option "maxConcurrent.of"',
    ],
    ['a key of prototypes', { maxConcurrent: JSON.parse('{"__proto__":{"max":1}}') }, '"maxConcurrent.__proto__"'],
    ['a time in words', { timeoutMs: '1s' }, 'its "timeoutMs"'],
    ['half a value', { maxValues: 0.5 }, 'its "maxValues"'],
    ['a view without a scheme', { ui: 'orders' }, 'its view must be a URI that begins with "ui://"'],
    ['one scope', { scopes: 'orders:write' }, 'its "scopes" cannot be used'],
    ['a scope that is none', { scopes: ['a b'] }, 'its "scopes" cannot be used: @RequireScopes() takes scopes'],
    ['no scope', { scopes: [] }, 'its "scopes" cannot be used: @RequireScopes() takes scopes'],
    ['the scope of refresh tokens', { scopes: ['offline_access'] }, 'cannot take "offline_access"'],
    ['scopes with an unknown part', { scopes: { all: ['a'], any: ['b'] } }, 'There is no option "scopes.any"'],
    ['a guard', { guards: [{}] }, 'it has "guards", which a tool of a catalogue cannot have. It is code'],
    [
      'an option of routes',
      { rename: { a: 'b' } },
      'it has "rename", which a tool of a catalogue cannot have. It is for',
    ],
  ])('D44: a tool of a catalogue with %s is left out, and the log says why', async (_what, options, reason) => {
    lists = () => [{ name: 'bad', ...options }, { name: 'good' }];
    expect(await listed('ann')).toEqual(['good']);
    await expect(call('ann', 'x', 'bad')).rejects.toThrow('not found');
    expect(remarks()).toEqual([expect.stringContaining(reason)]);
  });

  it('D44: a tool of a catalogue is what its text says, whatever its properties return when they are read again', async () => {
    const honest = { name: 'slow', inputSchema: { type: 'object', properties: {}, additionalProperties: false } };
    let reads = 0;
    const shifty = {
      get name() {
        return reads++ === 0 ? 'slow' : 'other';
      },
      inputSchema: {
        type: 'object',
        properties: {},
        get additionalProperties() {
          return reads++ > 1;
        },
      },
    };
    lists = ({ principal }) => [principal === 'ann' ? shifty : honest];
    expect(await listed('ann')).toEqual(['slow']);
    expect(await listed('bob')).toEqual(['slow']);
    const { isError } = await tools.callTool('slow', { more: 1 }, { principal: 'bob' });
    expect(isError).toBe(true);
  });

  it('D44: a limit without end is kept apart from its text', async () => {
    lists = ({ principal }) => [{ name: 'sized', maxResultBytes: principal === 'ann' ? Infinity : 'Infinity' }];
    expect(await listed('ann')).toEqual(['sized']);
    expect(await listed('bob')).toEqual([]);
  });
});
