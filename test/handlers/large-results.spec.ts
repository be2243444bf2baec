import { Injectable } from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, McpStreamableModule, Tool, type ToolOptions } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, serverInfo, startFailure } from '../support/app.js';
import { registryOf, testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
import { LATEST } from '../support/raw-client.js';

const Sized = z.object({ letter: z.string().default('x'), length: z.number() });
type Sized = z.infer<typeof Sized>;

@Injectable()
class SizedTools {
  @Tool({ name: 'text', inputSchema: Sized })
  text(@McpArgs() { letter, length }: Sized): string {
    return letter.repeat(length);
  }
  @Tool({ name: 'wide', inputSchema: Sized, maxResultBytes: Infinity })
  wide(@McpArgs() { letter, length }: Sized): string {
    return letter.repeat(length);
  }
  @Tool({ name: 'narrow', maxResultBytes: 100 })
  narrow(): string {
    return 'x'.repeat(100);
  }
  @Tool({ name: 'open', inputSchema: { type: 'object' }, maxResultBytes: 100 })
  open(): string {
    return 'x'.repeat(100);
  }
  @Tool({ name: 'asks', maxResultBytes: 100 })
  async asks(@McpCtx() ctx: McpContext): Promise<string> {
    const requestedSchema = { type: 'object', properties: { yes: { type: 'boolean' } } } as const;
    const { action } = await ctx.elicit('sure', { message: 'Really? '.repeat(20), requestedSchema });
    return action;
  }
  @Tool({ name: 'later', inputSchema: Sized })
  async later(@McpArgs() { length }: Sized, @McpCtx() ctx: McpContext): Promise<object> {
    await ctx.progress(1, 2);
    return { text: 'x'.repeat(length) };
  }
  @Tool({ name: 'structured' })
  structured(): object {
    return { sum: 3 };
  }
  @Tool({ name: 'quiet', textMirror: false })
  quiet(): object {
    return { sum: 3 };
  }
  @Tool({ name: 'checked', textMirror: false, outputSchema: z.object({ sum: z.number() }) })
  checked(): { sum: number } {
    return Object.assign({ sum: 3 }, { secret: 'stripped' });
  }
  @Tool({ name: 'whole', textMirror: false })
  whole(): object {
    return { content: [{ type: 'text', text: 'three' }], structuredContent: { sum: 3 } };
  }
}

const asked = (name: string, args: object = {}) => ({ name, arguments: args });

describe.each(ONE_ADAPTER)('the size of results, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [SizedTools], maxResultBytes: 1_000 });
  const callers = {
    legacy: async (app: Awaited<ReturnType<typeof start>>) => {
      const client = await app.client().initialize(LATEST);
      return async (name: string, args: object = {}) =>
        (await (await client.post({ jsonrpc: '2.0', id: 9, method: 'tools/call', params: asked(name, args) })).json())
          .result;
    },
    modern: async (app: Awaited<ReturnType<typeof start>>) => {
      const client = new ModernClient(app.url);
      return async (name: string, args: object = {}) => (await client.ask('tools/call', asked(name, args))).result;
    },
  } as const;

  it.each(['legacy', 'modern'] as const)(
    'the size of results is bounded: more becomes advice to ask for less (%s)',
    async (era) => {
      const call = await callers[era](await start());
      expect(await call('text', { length: 500 })).toMatchObject({ content: [{ text: 'x'.repeat(500) }] });
      const { content, isError, ...rest } = await call('text', { length: 2_000 });
      expect(isError).toBe(true);
      expect(content).toEqual([
        {
          type: 'text',
          text: expect.stringMatching(
            /^The result of "text" has 2\d{3} bytes; the maximum is 1000\. .* with its arguments \(letter, length\)\.$/,
          ),
        },
      ]);
      expect(rest).toEqual(
        era === 'modern'
          ? {
              resultType: 'complete',
              _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'test', version: '1.0.0' } },
            }
          : {},
      );
    },
  );

  it.each(['legacy', 'modern'] as const)(
    'the size of results counts bytes, of the answer as it is sent (%s)',
    async (era) => {
      const call = await callers[era](await start());
      const { isError: small = false } = await call('text', { letter: 'é', length: 380 });
      const { isError: large = false } = await call('text', { letter: 'é', length: 500 });
      expect([small, large]).toEqual([false, true]);
    },
  );

  it('the size of results is limited by the option of the tool, where it has one', async () => {
    const call = await callers.legacy(await start());
    expect((await call('wide', { length: 5_000 })).content[0].text).toHaveLength(5_000);
    const { content, isError } = await call('narrow');
    expect(isError).toBe(true);
    expect(content[0].text).toContain('the maximum is 100. None of it was sent. Ask for less, with another tool');
    // It may take any arguments: none are known by name.
    expect((await call('open')).content[0].text).toMatch(/Ask for less, with its arguments\.$/);
  });

  it('the size of results is not limited for questions, which no model reads', async () => {
    const client = new ModernClient((await start()).url);
    const capabilities = { elicitation: { form: {} } };
    const { result } = await client.ask('tools/call', asked('asks'), { capabilities });
    expect(result).toMatchObject({ resultType: 'input_required', inputRequests: { sure: {} } });
    const inputResponses = { sure: { action: 'decline' } };
    const { requestState } = result;
    const again = await client.ask('tools/call', { ...asked('asks'), inputResponses, requestState }, { capabilities });
    expect(again.result.content[0].text).toContain('the maximum is 100');
  });
});

describe.each(ONE_ADAPTER)('results, on %s,', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [SizedTools] });

  it('results are bounded on a stream too, and observers see that the tool failed', async () => {
    const outcomes: unknown[] = [];
    const app = await start({ maxResultBytes: 1_000 });
    app.service.calls$.subscribe(({ outcome }) => void outcomes.push(outcome));
    const client = new ModernClient(app.url);
    const { result } = await client.ask('tools/call', asked('later', { length: 2_000 }), { progressToken: 'p' });
    expect(result).toMatchObject({
      isError: true,
      content: [{ text: expect.stringContaining('the maximum is 1000') }],
    });
    expect(result).not.toHaveProperty('structuredContent');
    expect(outcomes).toEqual(['tool_error']);
  });

  it('results are unlimited without the option', async () => {
    const { result } = await new ModernClient((await start()).url).ask(
      'tools/call',
      asked('text', { length: 300_000 }),
    );
    expect(result.content[0].text).toHaveLength(300_000);
  });

  it('results of registered tools are bounded by the option of the endpoint, and their own', async () => {
    const app = await start({ maxResultBytes: 1_000, textMirror: false });
    const handler = () => ({ text: 'x'.repeat(2_000) });
    registryOf(app).registerTool({ name: 'registered', handler });
    registryOf(app).registerTool({ name: 'raised', handler, maxResultBytes: 10_000 });
    const client = new ModernClient(app.url);
    expect((await client.ask('tools/call', asked('registered'))).result).toMatchObject({ isError: true });
    expect((await client.ask('tools/call', asked('raised'))).result).toMatchObject({
      content: [],
      structuredContent: { text: 'x'.repeat(2_000) },
    });
  });

  it('results repeat structured content as text, unless the tool or the endpoint says otherwise', async () => {
    const client = new ModernClient((await start()).url);
    const content = async (name: string): Promise<unknown> =>
      (await client.ask('tools/call', asked(name))).result.content;
    expect(await content('structured')).toEqual([{ type: 'text', text: '{"sum":3}' }]);
    expect(await content('quiet')).toEqual([]);
    expect(await content('checked')).toEqual([]);
    expect(await content('whole')).toEqual([{ type: 'text', text: 'three' }]);
    const { result } = await client.ask('tools/call', asked('checked'));
    expect(result.structuredContent).toEqual({ sum: 3 });
    const quiet = new ModernClient((await start({ textMirror: false })).url);
    expect((await quiet.ask('tools/call', asked('structured'))).result).toMatchObject({
      content: [],
      structuredContent: { sum: 3 },
    });
  });

  it.each<[string, string, Partial<ToolOptions>]>([
    ['no bytes at all', 'maxResultBytes', { maxResultBytes: 0 }],
    ['a text for a number of bytes', 'maxResultBytes', { maxResultBytes: '1kB' as never }],
    ['a text for whether there is a mirror', 'textMirror', { textMirror: 'no' as never }],
  ])('results stop the start when the options of a tool have %s', async (_, name, options) => {
    class Wrong {
      @Tool({ name: 'wrong', ...options })
      wrong(): string {
        return '';
      }
    }
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    const { message } = await startFailure(adapter, () => ({ imports, providers: [Wrong] }));
    expect(message).toContain(`"${name}"`);
  });
});
