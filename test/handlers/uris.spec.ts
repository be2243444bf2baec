import { type CanActivate, type ExecutionContext, Injectable, UseGuards } from '@nestjs/common';
import {
  Complete,
  McpArgs,
  McpDuplicateHandlerError,
  McpExecutionContext,
  type McpInstrumentation,
  McpRegistry,
  Prompt,
  Resource,
  ResourceTemplate,
} from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { asker, ERAS, type Era } from '../auth/protected-apps.js';
import { ADAPTERS, ONE_ADAPTER, type TestApp } from '../support/app.js';
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
  const start = testApps(adapter, { shared: true, providers: [Days] });
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

/** Holds the URIs that guards, the handler and observers saw. */
let seen: { guard: string[]; handler: string[]; observer: (string | undefined)[] };

const noSecrets: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const { uri } = McpExecutionContext.create(context).getArgs<{ uri: string }>();
    seen.guard.push(uri);
    return !uri.startsWith('orders://secret');
  },
};

@Injectable()
@UseGuards(noSecrets)
class Orders {
  @Resource({ uri: 'orders://Terms', name: 'terms' })
  terms(@McpArgs('uri') uri: string): string {
    seen.handler.push(uri);
    return 'the terms';
  }
  @Resource({ uri: 'Orders://secret', name: 'secret' })
  secret(): string {
    seen.handler.push('secret');
    return 'the secret';
  }
  @ResourceTemplate({ uriTemplate: 'orders://{area}/{id}', name: 'order' })
  order(@McpArgs() { uri, area, id }: { uri: string; area: string; id: string }): object {
    seen.handler.push(uri);
    return { area, id };
  }
  @ResourceTemplate({ uriTemplate: 'find://orders{?q,page}', name: 'found' })
  find(@McpArgs() { q = 'all', page = '1' }: { q?: string; page?: string }): object {
    return { q, page };
  }
  @ResourceTemplate({ uriTemplate: 'files://root{/path*}', name: 'file' })
  file(@McpArgs('path') path: string[]): object {
    return { path };
  }
  @ResourceTemplate({ uriTemplate: 'files://any/{+path}', name: 'any file' })
  any(@McpArgs('path') path: string): object {
    return { path };
  }
}

const observer: McpInstrumentation = {
  call({ uri }, serve) {
    seen.observer.push(uri);
    return serve();
  },
};

const METHODS = { legacy: ['resources/read', 'resources/subscribe'], modern: ['resources/read'] } as const;
/** A subscription does not say that a resource exists. */
const DENIED = { 'resources/read': -32_000, 'resources/subscribe': -32_602 } as const;

const SECRETS = [
  'orders://secret',
  'ORDERS://secret',
  'Orders://%73ecret',
  'orders://secre%74',
  '%6Frders://secret',
  'orders://secret/7',
  'ORDERS://secret/7',
  'orders://%73%65cret/7',
  'orders://secre%74/%2D7',
  'orders://%73ecret/%2573',
];

describe.each(ADAPTERS)('the spellings of a URI on %s', (adapter) => {
  const start = testApps(adapter, { providers: [Orders], instrumentation: [observer], shared: true });

  const asking = async (app: TestApp, era: Era) => {
    seen = { guard: [], handler: [], observer: [] };
    const { request } = await asker(app, era, {});
    // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
    return async (method: string, uri: string): Promise<any> => {
      const response = await request(method, { uri });
      if (!response.header('content-type')?.startsWith('text/event-stream')) return response.json();
      const stream = response.sse();
      await stream.end();
      return stream.messages.at(-1);
    };
  };

  it.each(ERAS)('D41: a guard that compares a URI sees each of its spellings in one form (%s)', async (era) => {
    const ask = await asking(await start(), era);
    for (const uri of SECRETS) {
      for (const method of METHODS[era]) {
        const { error } = await ask(method, uri);
        expect([uri, method, error?.code]).toEqual([uri, method, DENIED[method]]);
      }
    }
    expect(seen.handler).toEqual([]);
    expect(new Set(seen.observer.filter((uri) => uri !== undefined))).toEqual(
      new Set(['orders://secret', 'orders://secret/7', 'orders://secret/-7', 'orders://secret/%2573']),
    );
  });

  it.each(ERAS)(
    'D41: guards, handlers and observers see one form; contents have the spelling of the client (%s)',
    async (era) => {
      const ask = await asking(await start(), era);
      for (const uri of ['ORDERS://caf%c3%a9/%41-7', 'orders://caf%C3%A9/A-7']) {
        const { result } = await ask('resources/read', uri);
        expect(result.contents).toEqual([{ uri, mimeType: 'application/json', text: '{"area":"café","id":"A-7"}' }]);
      }
      const form = 'orders://café/A-7';
      expect(seen).toMatchObject({ guard: [form, form], handler: [form, form] });
      expect(seen.observer.slice(-2)).toEqual([form, form]);
    },
  );

  it('D41: a fixed resource is read by each spelling of its URI, and not in another case', async () => {
    const ask = await asking(await start(), 'modern');
    expect((await ask('resources/read', 'ORDERS://%54erms')).result.contents[0].text).toBe('the terms');
    expect((await ask('resources/read', 'orders://terms')).error.message).toContain('not found');
    expect(seen.handler).toEqual(['orders://Terms']);
  });

  it.each(ERAS)('D42: the variables of a query are optional and in any order (%s)', async (era) => {
    const ask = await asking(await start(), era);
    const read = async (uri: string): Promise<unknown> => {
      const { result, error } = await ask('resources/read', uri);
      return error ? error.message : JSON.parse(result.contents[0].text);
    };
    expect(await read('find://orders')).toEqual({ q: 'all', page: '1' });
    expect(await read('find://orders?page=2&q=a%20lamp')).toEqual({ q: 'a lamp', page: '2' });
    expect(await read('find://orders?sort=id')).toContain('not found');
    expect(await read('files://root/a/b%20c/d')).toEqual({ path: ['a', 'b c', 'd'] });
    expect(await read('files://root/a%2Fb')).toContain('not found');
    expect(await read('files://any/a%2Fb')).toEqual({ path: 'a/b' });
    expect(await read('files://any/a%2F..%2F..%2Fb')).toContain('not found');
  });
});

describe.each(ONE_ADAPTER)('the subscriptions to a URI on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Orders] });
  const [spelled, form] = ['ORDERS://caf%c3%a9/7', 'orders://café/7'];

  it('D41: a session gets updates of a resource by the last spelling that it subscribed to', async () => {
    seen = { guard: [], handler: [], observer: [] };
    const app = await start();
    const client = await app.client().initialize();
    const ask = async (method: string, uri: string): Promise<void> => {
      const { result } = await (
        await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params: { uri } })
      ).json();
      expect(result).toEqual({});
    };
    await ask('resources/subscribe', form);
    await ask('resources/subscribe', spelled);
    const stream = await client.listen();
    expect(await app.service.resourceUpdated('orders://caf%C3%A9/%37')).toBe(1);
    await stream.until(({ messages }) => messages.length > 0);
    expect(stream.messages.map(({ params }) => params)).toEqual([{ uri: spelled }]);
    await ask('resources/unsubscribe', 'orders://café/%37');
    expect(await app.service.resourceUpdated(form)).toBe(0);
    stream.destroy();
  });

  it('D41: a subscription of revision 2026-07-28 names a resource once, by the spelling of the client', async () => {
    seen = { guard: [], handler: [], observer: [] };
    const app = await start();
    const stream = await new ModernClient(app.url).listen({ resourceSubscriptions: [form, spelled] });
    expect(stream.messages[0].params.notifications).toEqual({ resourceSubscriptions: [spelled] });
    await app.service.resourceUpdated('orders://caf%C3%A9/%37');
    await app.service.notify(() => false, { method: 'notifications/resources/updated', params: { uri: form } });
    await stream.count(3);
    expect(stream.messages.slice(1).map(({ params }) => params.uri)).toEqual([spelled, spelled]);
    expect(seen.guard).toEqual([form]);
    stream.destroy();
  });
});

describe.each(ONE_ADAPTER)('handlers that become one on %s', (adapter) => {
  const start = testApps(adapter, { shared: true });

  @Injectable()
  class Cafes {
    @Resource({ uri: 'notes://café', name: 'one' })
    one(): string {
      return 'one';
    }
    @ResourceTemplate({ uriTemplate: 'NOTES://{Id}/%65nd', name: 'template' })
    template(): string {
      return 'a template';
    }
  }
  @Injectable()
  class OtherCafe {
    @Resource({ uri: 'Notes://caf%c3%a9', name: 'other' })
    other(): string {
      return 'other';
    }
  }
  @Injectable()
  class OtherTemplate {
    @ResourceTemplate({ uriTemplate: 'notes://{Id}/end', name: 'other' })
    other(): string {
      return 'other';
    }
  }

  it('D41: handlers whose URIs, or templates, become one stop the start', async () => {
    for (const other of [OtherCafe, OtherTemplate])
      await expect(start({ providers: [Cafes, other] })).rejects.toThrow(McpDuplicateHandlerError);
  });

  it('D41: a resource is switched off and completed by any spelling, and listed in its own', async () => {
    const app = await start({ providers: [Cafes] });
    const client = new ModernClient(app.url);
    const { result } = await client.ask('resources/list');
    expect(result.resources[0].uri).toBe('notes://café');
    const templates = await client.ask('resources/templates/list');
    expect(templates.result.resourceTemplates[0].uriTemplate).toBe('NOTES://{Id}/%65nd');
    const ref = { type: 'ref/resource', uri: 'notes://{Id}/end' };
    const completion = await client.ask('completion/complete', { ref, argument: { name: 'Id', value: '' } });
    expect(completion.result.completion.values).toEqual([]);
    const registry = app.app.get(McpRegistry);
    await registry.disable('NOTES://caf%C3%A9', { kind: 'resource' });
    expect((await client.ask('resources/read', { uri: 'Notes://caf%c3%a9' })).error.message).toContain('switched off');
    await registry.enable('notes://café', { kind: 'resource' });
    expect((await client.ask('resources/read', { uri: 'notes://caf%C3%A9' })).result.contents[0].text).toBe('one');
  });
});
