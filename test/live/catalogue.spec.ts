import { type CanActivate, ForbiddenException, Injectable, Logger, UseGuards } from '@nestjs/common';
import { type McpCaller, McpCatalogue, type McpCatalogueTool, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serverInfo, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import { registryOf } from '../support/test-apps.js';
import { as, trustingGuard } from '../support/users.js';
import { ShopTools } from './shop.js';
import { LiveReader } from './live-reader.js';

Logger.overrideLogger(false);

const note = (description: string): McpCatalogueTool => ({
  name: 'note',
  title: 'Write a note',
  description,
  inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
  annotations: { readOnlyHint: true },
});

let lists: (caller: McpCaller) => McpCatalogueTool[];
let inPlan: boolean;

class PlanGuard implements CanActivate {
  canActivate(): boolean {
    if (inPlan) return true;
    throw new ForbiddenException('Not in your plan, ann');
  }
}

@McpCatalogue()
@Injectable()
class Plugins {
  list(caller: McpCaller): McpCatalogueTool[] {
    return lists(caller);
  }
  @UseGuards(PlanGuard)
  call(name: string): string {
    return name;
  }
}

describe('tools of a catalogue on the live page', () => {
  let app: TestApp;
  let clock: ManualClock;
  let reader: LiveReader;
  beforeEach(async () => {
    lists = () => [note('Writes a note')];
    inPlan = true;
    clock = new ManualClock();
    const imports = [
      McpStreamableModule.forRoot({ serverInfo, guards: [trustingGuard], listGuards: [] }),
      McpLiveModule.forRoot({ unguarded: 'loopback' }),
    ];
    app = await TestApp.of('fastify', { imports, providers: [Plugins, ShopTools] }, undefined, clock);
  });
  afterEach(async () => {
    reader?.close();
    await app.close();
  });

  const client = (user?: string) => new ModernClient(app.url, user === undefined ? {} : as(user));
  const list = (user?: string) => client(user).ask('tools/list');
  const call = (user: string, name = 'note') => client(user).ask('tools/call', { name, arguments: { text: 'x' } });
  const open = async () => {
    reader = await LiveReader.open(`${app.base}/mcp-live`);
    return reader.first.tools;
  };
  async function details(key = 'note') {
    const query = new URLSearchParams({ endpoint: '0', kind: 'tool', key }).toString();
    const response = await send(`${app.base}/mcp-live/details?${query}`, { method: 'GET' });
    return { status: response.status, body: await response.json() };
  }

  it('a tool that a caller was listed has a row of its own, which says who lists it, before it is called', async () => {
    await list('ann');
    const tools = await open();
    expect(tools.get('tool note')).toMatchObject({
      title: 'Write a note',
      about: 'Writes a note',
      of: 'Plugins',
      calls: 0,
    });
    expect(tools.get('tool find_order')).toMatchObject({ of: '' });
  });

  it('the details of a tool of a catalogue are those that its callers read, with its guards and its callers', async () => {
    await list('ann');
    await list();
    const { body } = await details();
    expect(body).toMatchObject({
      wire: { description: 'Writes a note', inputSchema: { required: ['text'] } },
      guards: ['PlanGuard'],
      listed: { by: 'Plugins', varies: false },
    });
    expect(body.listed.callers).toEqual([null, 'ann']);
    expect(body.tokens).toBeGreaterThan(10);
  });

  it('a tool of a catalogue that differs between callers says so, and is shown as the latest of them has it', async () => {
    lists = ({ principal }) => [note(`Of ${principal}`)];
    await list('ann');
    await list('ben');
    expect((await details()).body).toMatchObject({
      wire: { description: 'Of ben' },
      listed: { callers: ['ben', 'ann'], varies: true },
    });
  });

  it('a tool that no kept list has any more is shown as its latest call found it', async () => {
    await call('ann');
    registryOf(app).changed(Plugins);
    expect((await details()).body).toMatchObject({
      wire: { description: 'Writes a note' },
      listed: { by: 'Plugins', callers: [] },
    });
    expect((await open()).get('tool note')).toMatchObject({ about: 'Writes a note', calls: 1 });
  });

  it('a tool of the table that a catalogue also has is that of the table', async () => {
    lists = () => [{ name: 'find_order', description: 'Of the catalogue' }];
    await list('ann');
    expect((await details('find_order')).body).toMatchObject({ wire: { description: 'Finds an order by its number' } });
    expect((await details('find_order')).body.listed).toBeUndefined();
  });

  it('an expired list of a catalogue shows no tools', async () => {
    await list('ann');
    await clock.advance(300_001);
    expect((await details()).status).toBe(404);
    expect((await open()).has('tool note')).toBe(false);
  });

  it('a call that a guard refuses says with which status and error, and not the text of the app', async () => {
    inPlan = false;
    await call('ann');
    await open();
    expect(reader.events.at(-1)).toMatchObject({ what: 'note', outcome: 'denied', reason: '403 ForbiddenException' });
    expect(reader.stream.body).not.toContain('Not in your plan');
  });
});
