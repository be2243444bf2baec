import {
  ForbiddenException,
  HttpException,
  Injectable,
  UnauthorizedException,
  UseGuards,
  UseInterceptors,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { APP_GUARD } from '@nestjs/core';
import { Complete, McpArgs, McpCtx, McpExecutionContext, Prompt, Tool, type McpContext } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ADAPTERS, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { askOfficially, KINDS, messageOf, resultText } from '../support/kinds.js';
import { gists } from '../support/messages.js';
import { ModernClient } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { fourOf } from './four.js';
import { decidesByArguments } from '../support/users.js';

const guard = (decide: (context: ExecutionContext) => unknown): CanActivate => ({
  canActivate: (context) => {
    decidesByArguments(context);
    return decide(context) as boolean;
  },
});
const contextOf = (context: ExecutionContext): McpContext => McpExecutionContext.create(context).getContext();
const denies = guard(() => false);
const explains = guard(() => {
  throw new ForbiddenException('Only staff may do this');
});
const asksForMore = guard((context) => {
  context.switchToHttp().getResponse().header('WWW-Authenticate', 'Bearer error="insufficient_scope", scope="refunds"');
  throw new ForbiddenException('More scope, please');
});
const unknown = guard(() => {
  throw new UnauthorizedException('Who are you?');
});
const talkative = guard(async (context) => {
  await contextOf(context).progress(1, 2, 'Looking for your rights');
  return false;
});
const throttles = guard(() => {
  throw new HttpException('Too many calls', 429);
});
/** As a throttler does that has a name, or none. */
const throttlesFor = (header: string, seconds: number, text: string): CanActivate =>
  guard((context) => {
    context.switchToHttp().getResponse().header(header, seconds);
    throw new HttpException(text, 429);
  });

let validated = 0;
let ran = 0;

@Injectable()
class Checked {
  @UseGuards(denies)
  @Tool({
    name: 'checked',
    inputSchema: z.object({ id: z.string().refine(() => ++validated > 0) }),
    outputSchema: z.object({ id: z.string() }),
  })
  checked(@McpArgs() args: { id: string }): { id: string } {
    ran += 1;
    return args;
  }
  /** Its completion is guarded, it is not: so it is there to be completed. */
  @Prompt({ name: 'completed', arguments: [{ name: 'word' }] })
  completed(): string {
    return 'completed';
  }
  @UseGuards(denies)
  @Complete({ prompt: 'completed', argument: 'word' })
  words(): string[] {
    return [];
  }
  /** Denied only when the user has answered. */
  @UseInterceptors({
    intercept: async (context: ExecutionContext): Promise<never> => {
      await contextOf(context).elicit('sure', {
        message: 'Sure?',
        requestedSchema: { type: 'object', properties: {} },
      });
      throw new ForbiddenException('Not on Sundays');
    },
  })
  @Tool({ name: 'asked' })
  asked(@McpCtx() _ctx: McpContext): string {
    return 'asked';
  }
}

const providers = [
  fourOf('denied', { onMethods: [UseGuards(denies)] }),
  fourOf('explained', { onClass: [UseGuards(explains)] }),
  fourOf('scoped', { onMethods: [UseGuards(asksForMore)] }),
  fourOf('unknown', { onMethods: [UseGuards(unknown)] }),
  fourOf('talkative', { onMethods: [UseGuards(talkative)] }),
  fourOf('throttled', { onMethods: [UseGuards(throttles)] }),
  fourOf('waits', { onMethods: [UseGuards(throttlesFor('Retry-After', 42, 'ThrottlerException: Too Many Requests'))] }),
  fourOf('named', { onMethods: [UseGuards(throttlesFor('Retry-After-short', 5, 'Slow down!'))] }),
  fourOf('says', { onMethods: [UseGuards(throttlesFor('Retry-After', 42, 'Come back in 42 s'))] }),
  fourOf('open'),
  Checked,
];
const result = (text: string) => ({ content: [{ type: 'text', text }], isError: true });
const CHALLENGE = 'Bearer error="insufficient_scope", scope="refunds"';

describe.each(ADAPTERS)('a denial of a tool, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers });
  const connect = officialClients();

  const clients = {
    legacy: async (app: TestApp) => {
      const client = await app.client().initialize();
      return (name: string, args = {}, headers = {}) => client.post(messageOf(client, 'tool', name, args), headers);
    },
    modern: async (app: TestApp) => {
      const client = new ModernClient(app.url);
      return (name: string, args = {}) => client.call(name, args);
    },
  };
  const ERAS = ['legacy', 'modern'] as const;
  /** Of the nth call: a session begins with `initialize`. */
  const idOf = (era: (typeof ERAS)[number], nth: number): number => (era === 'legacy' ? nth + 1 : nth);

  it.each(ERAS)(
    'a denial of a tool is a result that the model reads: HTTP 200, "isError", the text (%s)',
    async (era) => {
      const app = await start();
      const call = await clients[era](app);
      for (const [name, text] of [
        ['denied', 'Forbidden resource'],
        ['explained', 'Only staff may do this'],
        ['talkative', 'Forbidden resource'],
        ['throttled', 'Too many calls'],
      ] as const) {
        const response = await call(name);
        expect(response.status).toBe(200);
        expect((await response.json()).result).toMatchObject(result(text));
      }
      expect(app.log.texts('error')).toEqual([]);
      await app.settled({ inFlight: 0, openResponses: 0 });
    },
  );

  it.each(ERAS)(
    'D47: a tool that a guard throttles says how long to wait, as its guard has said it in a header (%s)',
    async (era) => {
      const app = await start();
      const call = await clients[era](app);
      for (const [name, text] of [
        ['waits', 'ThrottlerException: Too Many Requests. Try again in 42 seconds.'],
        ['named', 'Slow down. Try again in 5 seconds.'],
        ['says', 'Come back in 42 s'],
      ] as const) {
        expect((await (await call(name)).json()).result).toMatchObject(result(text));
      }
      expect(app.log.texts('error')).toEqual([]);
    },
  );

  it('D47: a prompt that a guard throttles says how long to wait, too', async () => {
    const client = new ModernClient((await start()).url);
    const { error } = await client.ask('prompts/get', { name: 'waits' });
    expect(error).toEqual({
      code: -32603,
      message: 'ThrottlerException: Too Many Requests. Try again in 42 seconds.',
    });
  });

  it.each(ERAS)(
    'a denial of a tool comes before arguments are read, whatever the output schema says (%s)',
    async (era) => {
      [validated, ran] = [0, 0];
      const call = await clients[era](await start());
      for (const args of [{ id: 'fine' }, { id: 7 }]) {
        expect((await (await call('checked', args)).json()).result).toMatchObject(result('Forbidden resource'));
      }
      expect([validated, ran]).toEqual([0, 0]);
    },
  );

  it.each(ERAS)(
    'a denial of a tool is HTTP where the client is to authorize: a 401, or "WWW-Authenticate" (%s)',
    async (era) => {
      const call = await clients[era](await start());
      const unauthorized = await call('unknown');
      await expectRefusal(unauthorized, { id: idOf(era, 1), status: 401, code: -32000, says: ['Who are you?'] });
      const forbidden = await call('scoped');
      expect(forbidden.header('www-authenticate')).toBe(CHALLENGE);
      await expectRefusal(forbidden, { id: idOf(era, 2), status: 403, code: -32000, says: ['More scope, please'] });
    },
  );

  it.each(ERAS)('a denial of a tool is HTTP 403 with "denials": "http" (%s)', async (era) => {
    const call = await clients[era](await start({ denials: 'http' }));
    await expectRefusal(await call('explained'), {
      id: idOf(era, 1),
      status: 403,
      code: -32000,
      says: ['Only staff may do this'],
    });
  });

  it('a denial of a tool is a result in a batch, beside other denials and other answers', async () => {
    const app = await start();
    const client = await app.client().initialize('2025-03-26');
    const batch = ['denied', 'open', 'unknown', 'scoped'].map((name) => messageOf(client, 'tool', name));
    const response = await client.post(batch);
    expect([response.status, response.header('www-authenticate')]).toEqual([200, undefined]);
    const answers = (await response.json()) as { id: number; result?: object; error?: object }[];
    const byId = new Map(answers.map((answer) => [answer.id, answer]));
    const [denied, open, ...challenged] = batch.map(({ id }) => byId.get(id)!);
    expect(denied!.result).toEqual(result('Forbidden resource'));
    expect(resultText(open!.result)).toBe('open');
    expect(challenged.map(({ error }) => error)).toEqual([
      { code: -32000, message: 'Who are you?' },
      { code: -32000, message: 'More scope, please' },
    ]);
  });

  it('a denial of a tool is a result on a stream that has begun', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const message = messageOf(client, 'tool', 'talkative');
    const _meta = { progressToken: 'token' };
    const stream = (await client.post({ ...message, params: { ...message.params, _meta } })).sse();
    expect(await stream.end()).toBe('end');
    expect(gists(stream.messages)).toEqual(['progress 1', 'Forbidden resource']);
    expect(stream.messages[1]).toMatchObject({ id: message.id, result: result('Forbidden resource') });
  });

  it('a denial of a tool is a result after the client was asked something', async () => {
    const app = await start();
    const client = new ModernClient(app.url);
    const capabilities = { elicitation: {} };
    const { result: asked } = await client.ask('tools/call', { name: 'asked' }, { capabilities });
    expect(asked.resultType).toBe('input_required');
    const { requestState } = asked;
    const answer = { inputResponses: { sure: { action: 'accept', content: {} } }, requestState };
    const { result: denied } = await client.ask('tools/call', { name: 'asked', ...answer }, { capabilities });
    expect(denied).toMatchObject(result('Not on Sundays'));
  });

  it('a denial of a tool reaches the official client as a result, and its run goes on', async () => {
    const client = await connect(await start());
    expect(await client.callTool({ name: 'explained', arguments: {} })).toMatchObject(result('Only staff may do this'));
    expect(await askOfficially(client, 'tool', 'open')).toBe('open');
  });

  it('a denial of a tool by a guard of the whole app is a result; that of the route itself stays HTTP', async () => {
    const strict = guard((context) => {
      const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
      return McpExecutionContext.isMcp(context) ? headers['x-role'] === 'staff' : headers['x-role'] !== undefined;
    });
    const app = await start({ providers: [{ provide: APP_GUARD, useValue: strict }] });
    const client = await app.client({ 'x-role': 'guest' }).initialize();
    const guest = await client.post(messageOf(client, 'tool', 'open'));
    expect([guest.status, (await guest.json()).result]).toEqual([200, result('Forbidden resource')]);
    const staff = await client.post(messageOf(client, 'tool', 'open'), { 'x-role': 'staff' });
    expect(resultText((await staff.json()).result)).toBe('open');
    client.headers = {};
    const outsider = await client.post(messageOf(client, 'tool', 'open'));
    await expectRefusal(outsider, { status: 403, code: -32000 });
  });

  it.each(KINDS.filter((kind) => kind !== 'tool'))(
    'a denial of a tool is not what a %s has: HTTP 403, in any case',
    async (kind) => {
      for (const denials of ['result', 'http'] as const) {
        const app = await start({ denials });
        const client = await app.client().initialize();
        const message = messageOf(client, kind, 'explained');
        const refusal = { status: 403, code: -32000, id: message.id, says: ['Only staff may do this'] };
        await expectRefusal(await client.post(message), refusal);
      }
    },
  );

  it('a denial of a tool is not what a completion has: HTTP 403', async () => {
    const client = await (await start()).client().initialize();
    const params = { ref: { type: 'ref/prompt', name: 'completed' }, argument: { name: 'word', value: 'a' } };
    const response = await client.post({ jsonrpc: '2.0', id: 9, method: 'completion/complete', params });
    await expectRefusal(response, { status: 403, code: -32000, id: 9 });
  });
});
