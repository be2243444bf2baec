import { Injectable } from '@nestjs/common';
import { McpCtx, Prompt, Tool, type McpContext } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';
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

describe.each(ONE_ADAPTER)('a question that a client cannot answer, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Asking], errorDetails: false });

  it.each([
    ['a form', 'elicit', {}, { elicitation: { form: {} } }, 'elicitation'],
    [
      'a form, to a client that opens URLs alone',
      'elicit',
      { elicitation: { url: {} } },
      { elicitation: { form: {} } },
      'elicitation.form',
    ],
    ['a page', 'visit', {}, { elicitation: { url: {} } }, 'elicitation'],
    [
      'a page, to a client that shows forms alone',
      'visit',
      { elicitation: {} },
      { elicitation: { url: {} } },
      'elicitation.url',
    ],
    ['a sample', 'sample', {}, { sampling: {} }, 'sampling'],
    ['a sample with tools', 'sample with tools', { sampling: {} }, { sampling: { tools: {} } }, 'sampling.tools'],
    ['the roots', 'roots', {}, { roots: {} }, 'roots'],
    ['several at once', 'several', { sampling: {} }, { roots: {} }, 'roots'],
  ])(
    'P7, M6: a question that a client cannot answer, %s, ends its call alike in both eras: with the capability that the client lacks',
    async (_, what, capabilities, requiredCapabilities, lacks) => {
      const app = await start();
      const headers = { what: encodeURIComponent(what) };
      const message = expect.stringMatching(
        new RegExp(`^The question "(key|a)" .* cannot be asked: this client .* capability "${lacks}"\\.$`),
      ) as string;
      const refusal = { code: -32021, message, data: { requiredCapabilities } };
      const old = await app.client(headers).initialize(LATEST, capabilities);
      const modern = new ModernClient(app.url, headers);
      for (const method of ['tools/call', 'prompts/get']) {
        const { error } = await (
          await old.post({ jsonrpc: '2.0', id: old.nextId(), method, params: { name: 'ask' } })
        ).json();
        expect(error).toEqual(refusal);
        const response = await modern.request(method, { name: 'ask' }, { capabilities });
        expect(response.status).toBe(400);
        expect((await response.json()).error).toEqual(error);
      }
      expect(app.log.texts('error')).toEqual([]);
    },
  );

  it('a question that a client of the 2025 revisions cannot answer throws an error that the handler may catch', async () => {
    const app = await start();
    const client = await app.client({ what: 'elicit' }).initialize(LATEST, {});
    const { result } = await (await client.call('code')).json();
    expect(result.content[0].text).toBe('McpServerRequestError CLIENT_LACKS_CAPABILITY');
  });

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
