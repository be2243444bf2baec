import { Injectable } from '@nestjs/common';
import { type McpCaller, McpCatalogue, type McpCatalogueTool, McpRegistry } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { Deployment, type Member } from '../support/nodes.js';
import { as, trustingGuard } from '../support/users.js';

let tools: Record<string, McpCatalogueTool[]>;
let asked: (string | undefined)[];

@McpCatalogue()
@Injectable()
class Plugins {
  list({ principal }: McpCaller): McpCatalogueTool[] {
    asked.push(principal);
    return tools[principal!] ?? [];
  }
  call(name: string): string {
    return name;
  }
}

describe.each(ONE_ADAPTER)('a catalogue on several nodes, on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b]: Member[] = [];
  beforeEach(async () => {
    [tools, asked] = [{ ann: [{ name: 'old' }], bob: [{ name: 'his' }] }, []];
    clock = new ManualClock();
    deployment = new Deployment(clock);
    const options = { adapter, guards: [trustingGuard], providers: [Plugins] };
    [a, b] = [await deployment.member(options), await deployment.member(options)];
  });
  afterEach(() => deployment.close());

  const listed = async ({ app }: Member, user: string): Promise<string[]> =>
    (await new ModernClient(app.url, as(user)).ask('tools/list')).result.tools.map(
      ({ name }: { name: string }) => name,
    );

  it('a catalogue on several nodes is asked again on each of them after a change, and clients of the principal hear of it wherever they listen', async () => {
    for (const member of [a!, b!]) {
      expect(await listed(member, 'ann')).toEqual(['old']);
      expect(await listed(member, 'bob')).toEqual(['his']);
    }
    const modern = await new ModernClient(b!.app.url, as('ann')).listen({ toolsListChanged: true });
    const others = await new ModernClient(b!.app.url, as('bob')).listen({ toolsListChanged: true });
    const session = await (await b!.app.client(as('ann')).initialize()).listen();
    tools['ann'] = [{ name: 'new' }];
    a!.app.app.get(McpRegistry).changed(Plugins, 'ann');
    await Promise.all([modern.count(2), session.count(1)]);
    expect([await listed(a!, 'ann'), await listed(b!, 'ann')]).toEqual([['new'], ['new']]);
    expect([await listed(a!, 'bob'), await listed(b!, 'bob')]).toEqual([['his'], ['his']]);
    expect(asked).toEqual(['ann', 'bob', 'ann', 'bob', 'ann', 'ann']);
    expect(others.messages).toHaveLength(1);
    for (const stream of [modern, others]) stream.destroy();
  });
});
