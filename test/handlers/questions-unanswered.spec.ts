import { Injectable } from '@nestjs/common';
import { McpCtx, Prompt, Tool, type McpContext } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { LATEST } from '../support/raw-client.js';

const requestedSchema = { type: 'object' as const, properties: { yes: { type: 'boolean' as const } } };
const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hi' } }];
const tools = [{ name: 'look', inputSchema: { type: 'object' as const } }];

/** Each asks the client for something, and leaves it to the library to say that it cannot. */
const asks: Record<string, (ctx: McpContext) => Promise<unknown>> = {
  elicit: (ctx) => ctx.elicit('key', { message: 'Sure?', requestedSchema }),
  visit: (ctx) => ctx.elicit('key', { mode: 'url', message: 'Go there', url: 'https://pay.example' }),
  sample: (ctx) => ctx.sample('key', { messages, maxTokens: 5 }),
  'sample with tools': (ctx) => ctx.sample('key', { messages, maxTokens: 5, tools }),
  roots: (ctx) => ctx.roots('key'),
  several: (ctx) => ctx.ask({ a: { method: 'roots/list' }, b: { method: 'roots/list' } }),
};

@Injectable()
class Asking {
  @Tool({ name: 'ask', inputSchema: { type: 'object', properties: { what: { type: 'string' } } } })
  ask(@McpCtx() ctx: McpContext): Promise<unknown> {
    const { what } = (ctx.request as { headers: Record<string, string> }).headers;
    return asks[decodeURIComponent(what!)]!(ctx);
  }
  @Prompt({ name: 'ask' })
  prompt(@McpCtx() ctx: McpContext): Promise<unknown> {
    return this.ask(ctx);
  }
  @Tool({ name: 'code' })
  async code(@McpCtx() ctx: McpContext): Promise<string> {
    return this.ask(ctx).then(
      () => 'answered',
      (error: { name: string; code: string }) => `${error.name} ${error.code}`,
    );
  }
}

describe.each(ONE_ADAPTER)('a question that a client of the 2025 revisions cannot answer, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Asking], errorDetails: false });

  it.each([
    ['a form', 'elicit', {}, 'elicitation'],
    ['a form, to a client that opens URLs alone', 'elicit', { elicitation: { url: {} } }, 'elicitation.form'],
    ['a page', 'visit', {}, 'elicitation'],
    ['a page, to a client that shows forms alone', 'visit', { elicitation: {} }, 'elicitation.url'],
    ['a sample', 'sample', {}, 'sampling'],
    ['a sample with tools', 'sample with tools', { sampling: {} }, 'sampling.tools'],
    ['the roots', 'roots', {}, 'roots'],
    ['several at once', 'several', { sampling: {} }, 'roots'],
  ])(
    'a question that a client of the 2025 revisions cannot answer, %s, fails the call with the capability that the client lacks',
    async (_, what, capabilities, lacks) => {
      const app = await start();
      const client = await app.client({ what: encodeURIComponent(what) }).initialize(LATEST, capabilities);
      const text = expect.stringMatching(new RegExp(`cannot be sent: .* capability "${lacks}"`)) as string;
      const { result } = await (await client.call('ask')).json();
      expect(result).toEqual({ content: [{ type: 'text', text }], isError: true });
      const prompt = { jsonrpc: '2.0', id: 50, method: 'prompts/get', params: { name: 'ask' } };
      expect((await (await client.post(prompt)).json()).error).toEqual({ code: -32603, message: text });
      const { result: code } = await (await client.call('code')).json();
      expect(code.content[0].text).toBe('McpServerRequestError CLIENT_LACKS_CAPABILITY');
      expect(app.log.texts('error')).toEqual([]);
    },
  );

  it('a question that a client of the 2025 revisions cannot answer fails the call when the client does not answer in time', async () => {
    const app = await start({ serverRequestTimeoutMs: 30 });
    const client = await app.client({ what: 'elicit' }).initialize(LATEST, { elicitation: {} });
    const stream = (await client.call('ask')).sse();
    expect(await stream.end()).toBe('end');
    expect(stream.messages.map(({ method }) => method)).toEqual([
      'elicitation/create',
      'notifications/cancelled',
      undefined,
    ]);
    expect(JSON.stringify(stream.messages.at(-1))).toMatch(
      /did not answer .*elicitation\/create.* within 30 ms .*serverRequestTimeoutMs/,
    );
  });
});
