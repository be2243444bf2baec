import { Injectable } from '@nestjs/common';
import { InMemoryStateStore, McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { handlersApps } from '../support/handlers-app.js';
import { ModernClient } from '../support/modern-client.js';
import { as } from '../support/users.js';

const IDLE = 60_000;

@Injectable()
class Notes {
  @Tool({ name: 'note' })
  async note(@McpCtx() ctx: McpContext): Promise<string> {
    await (await ctx.principalState()).patch({ mine: 'secret' });
    const state = await ctx.state();
    await state.patch({ mine: 'secret' });
    return state.handle;
  }

  @Tool({ name: 'read', inputSchema: z.object({ handle: z.string() }) })
  async read(@McpArgs('handle') handle: string, @McpCtx() ctx: McpContext): Promise<object> {
    const own = await ctx.principalState();
    const state = await ctx.state(handle).catch(() => ({ data: undefined }));
    return { own: own.data, state: state.data ?? null };
  }
}

describe.each(ONE_ADAPTER)('attacks on the state of modern callers, on %s', (adapter) => {
  const start = handlersApps(adapter, { providers: [Notes] });

  it('state: of an endpoint is none of another, also where its path is the name of that one', async () => {
    const clock = new ManualClock();
    const shared = { clock, stateStore: new InMemoryStateStore(clock), idleTimeoutMs: IDLE };
    const named = await start({ ...shared, name: 'mcp', path: 'admin' });
    const nameless = await start({ ...shared, path: 'mcp' });
    const [there, here] = [named, nameless].map(({ url }) => new ModernClient(url, as('ann'))) as [
      ModernClient,
      ModernClient,
    ];
    const noted = await there.ask('tools/call', { name: 'note', arguments: {} });
    const read = { name: 'read', arguments: { handle: noted.result.content[0].text as string } };
    const found = { own: { mine: 'secret' }, state: { mine: 'secret' } };
    expect((await there.ask('tools/call', read)).result.structuredContent).toEqual(found);
    expect((await here.ask('tools/call', read)).result.structuredContent).toEqual({ own: {}, state: null });
    await clock.advance(2 * IDLE);
    await named.settled({ states: 0 });
  });
});
