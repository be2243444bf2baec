import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { InMemoryStateStore } from 'nestjs-mcp-streamable/stores';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
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

  @Tool({ name: 'confirm' })
  async confirm(@McpCtx() ctx: McpContext): Promise<string> {
    const kept = await ctx.once('kept', () => 'once');
    await ctx.elicit('sure', { message: 'Sure?', requestedSchema: z.object({ yes: z.boolean() }) });
    return kept;
  }

  @Tool({ name: 'read', inputSchema: z.object({ handle: z.string() }) })
  async read(@McpArgs('handle') handle: string, @McpCtx() ctx: McpContext): Promise<object> {
    const own = await ctx.principalState();
    const state = await ctx.state(handle).catch(() => ({ data: undefined }));
    return { own: own.data, state: state.data ?? null };
  }
}

describe.each(ONE_ADAPTER)('attacks on the state of modern callers, on %s', (adapter) => {
  const start = testApps(adapter, { providers: [Notes] });

  it('state: a tenant cannot read the states of another one, be they named by a handle, kept for a principal, or sealed', async () => {
    const clock = new ManualClock();
    const app = await start({ clock, path: 'tenants/:tenant/mcp', idleTimeoutMs: IDLE });
    const tenant = (name: string) => new ModernClient(app.url.replace(':tenant', name), as('ann'));
    const [acme, umbrella] = [tenant('acme'), tenant('umbrella')];
    const noted = await acme.ask('tools/call', { name: 'note', arguments: {} });
    const read = { name: 'read', arguments: { handle: noted.result.content[0].text as string } };
    const found = { own: { mine: 'secret' }, state: { mine: 'secret' } };
    expect((await acme.ask('tools/call', read)).result.structuredContent).toEqual(found);
    expect((await umbrella.ask('tools/call', read)).result.structuredContent).toEqual({ own: {}, state: null });

    const capabilities = { elicitation: { form: {} } };
    const asked = await acme.ask('tools/call', { name: 'confirm', arguments: {} }, { capabilities });
    const { requestState } = asked.result as { requestState: string };
    const inputResponses = { sure: { action: 'accept', content: { yes: true } } };
    const again = { name: 'confirm', arguments: {}, requestState, inputResponses };
    expect((await umbrella.ask('tools/call', again, { capabilities })).error.code).toBe(-32602);
    expect((await acme.ask('tools/call', again, { capabilities })).result.content[0].text).toBe('once');
    await clock.advance(2 * IDLE);
    await app.settled({ states: 0 });
  });

  it('state: an endpoint cannot read the states of another one whose name is its path', async () => {
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
