import { Injectable } from '@nestjs/common';
import { Complete, Prompt, Resource, ResourceTemplate } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { ModernClient } from '../support/modern-client.js';

/** As many characters as a URI may have. */
const LONGEST = 'days://'.padEnd(2_048, '7');
const TOO_LONG = `${LONGEST}7`;
const TEMPLATE = 'days://{day}';

@Injectable()
class Days {
  @ResourceTemplate({ uriTemplate: TEMPLATE, name: 'day' })
  day(): string {
    return 'a day';
  }
  @Complete({ template: TEMPLATE, argument: 'day' })
  days(): string[] {
    return ['1'];
  }
  @ResourceTemplate({ uriTemplate: 'dates://{year}-{month}-{day}', name: 'date' })
  date({ year, month, day }: Record<string, string>): object {
    return { year, month, day };
  }
  @Resource({ uri: 'days://first', name: 'first' })
  first(): string {
    return 'the first';
  }
  @Prompt({ name: 'plan' })
  plan(): string {
    return 'Plan.';
  }
}

const completionOf = (uri: string): object => ({
  ref: { type: 'ref/resource', uri },
  argument: { name: 'day', value: '' },
});

describe.each(ONE_ADAPTER)('a URI that a client sends, on %s,', (adapter) => {
  const start = testApps(adapter, { providers: [Days] });
  const refusal = { code: -32602, message: 'The URI has 2049 characters; the maximum is 2048. Use a shorter URI.' };

  it.each([
    ['resources/read', (uri: string) => ({ uri })],
    ['resources/subscribe', (uri: string) => ({ uri })],
    ['resources/unsubscribe', (uri: string) => ({ uri })],
    ['completion/complete', completionOf],
  ])('D29: a URI that a client sends has at most 2,048 characters in %s', async (method, params) => {
    const app = await start();
    const client = await app.client().initialize();
    const ask = async (uri: string) => {
      return (await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params: params(uri) })).json();
    };
    expect((await ask(TOO_LONG)).error).toEqual(refusal);
    const { error, result } = await ask(LONGEST);
    if (method === 'completion/complete') expect(error.message).toContain('not found');
    else expect(result).toBeDefined();
  });

  it('D29: a URI that a client sends has at most 2,048 characters in revision 2026-07-28', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    for (const [method, params] of [
      ['resources/read', { uri: TOO_LONG }],
      ['completion/complete', completionOf(TOO_LONG)],
    ] as const) {
      expect((await client.ask(method, { ...params })).error).toEqual(refusal);
    }
    expect((await client.ask('resources/read', { uri: LONGEST })).result).toBeDefined();
    const notifications = { resourceSubscriptions: [LONGEST, TOO_LONG] };
    const { error } = await (await client.request('subscriptions/listen', { notifications })).json();
    expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('has 2049 characters') });
  });

  it('a URI that a client sends gives a template with several variables in a segment their values', async () => {
    const app = await start();
    const { result } = await new ModernClient(app.url).ask('resources/read', { uri: 'dates://2026-11-23' });
    expect(JSON.parse(result.contents[0].text)).toEqual({ year: '2026', month: '11', day: '23' });
  });
});
