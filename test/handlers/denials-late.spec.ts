import {
  ForbiddenException,
  UnauthorizedException,
  UseGuards,
  UseInterceptors,
  type CanActivate,
} from '@nestjs/common';
import type { ExecutionContext, NestInterceptor } from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, gate } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { askOfficially, asking, KINDS, messageOf } from '../support/kinds.js';
import { gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { as, decidesByArguments } from '../support/users.js';
import { fourOf } from './four.js';

const contextOf = (context: ExecutionContext) => McpExecutionContext.create(context).getContext();

/** Says what it does before it decides, as one that asks a slow directory. */
const talkative: CanActivate = {
  async canActivate(context: ExecutionContext): Promise<boolean> {
    decidesByArguments(context);
    await contextOf(context).progress(1, 2, 'Looking for your rights');
    return false;
  },
};
const challenging: CanActivate = {
  async canActivate(context: ExecutionContext): Promise<boolean> {
    context.switchToHttp().getResponse().header('WWW-Authenticate', 'Bearer');
    await contextOf(context).log('info', 'Who is it?');
    throw new UnauthorizedException('Who are you?');
  },
};
const strict: NestInterceptor = {
  async intercept(context: ExecutionContext): Promise<never> {
    await contextOf(context).progress(1);
    throw new ForbiddenException('Not on Sundays');
  },
};
let hold: ReturnType<typeof gate<void>>;
let entered: ReturnType<typeof gate<void>>;
const slow: CanActivate = {
  async canActivate(context): Promise<boolean> {
    decidesByArguments(context);
    entered.open();
    await hold.promise;
    return false;
  },
};

const providers = [
  fourOf('talkative', { onMethods: [UseGuards(talkative)] }),
  fourOf('challenging', { onClass: [UseGuards(challenging)] }),
  fourOf('strict', { onMethods: [UseInterceptors(strict)] }),
  fourOf('slow', { onMethods: [UseGuards(slow)] }),
  fourOf('open'),
];

describe.each(ONE_ADAPTER)('a denial when something was sent already, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers, sseAfterMs: 60_000, denials: 'http' });
  const connect = officialClients();
  beforeEach(() => {
    hold = gate();
    entered = gate();
  });

  const withToken = (client: RawClient, kind: (typeof KINDS)[number], host: string) => {
    const message = messageOf(client, kind, host);
    return { ...message, params: { ...message.params, _meta: { progressToken: 'token' } } };
  };
  const denied = (id: number, message: string) => ({ jsonrpc: '2.0', id, error: { code: -32000, message } });

  it.each(KINDS)(
    'a denial when something was sent already is a JSON-RPC error after the messages that were sent (%s)',
    async (kind) => {
      const app = await start();
      const client = await app.client(as('anna')).initialize();
      for (const [host, told, text] of [
        ['talkative', 'progress 1', 'Forbidden resource'],
        ['challenging', 'Who is it?', 'Who are you?'],
        ['strict', 'progress 1', 'Not on Sundays'],
      ] as const) {
        const message = withToken(client, kind, host);
        const response = await client.post(message);
        expect(response.status).toBe(200);
        expect(response.header('www-authenticate')).toBeUndefined();
        const stream = response.sse();
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages)).toEqual([told, 'error -32000']);
        expect(stream.messages[1]).toEqual(denied(message.id, text));
      }
      await app.settled({ inFlight: 0, streams: 0, openResponses: 0 });
    },
  );

  it.each(KINDS)(
    'a denial when something was sent already is an HTTP status when the client did not ask for progress (%s)',
    async (kind) => {
      const app = await start();
      const client = await app.client(as('anna')).initialize();
      const message = messageOf(client, kind, 'talkative');
      const response = await client.post(message);
      expect(response.status).toBe(403);
      expect(await response.json()).toEqual(denied(message.id, 'Forbidden resource'));
    },
  );

  it.each(KINDS)(
    'a denial when something was sent already is a JSON-RPC error when it takes longer than "sseAfterMs" (%s)',
    async (kind) => {
      const clock = new ManualClock();
      const app = await start({ clock });
      const client = await app.client(as('anna')).initialize();
      const message = messageOf(client, kind, 'slow');
      const posted = client.post(message);
      await entered.promise;
      await clock.advance(60_000);
      const response = await posted;
      expect(response.status).toBe(200);
      hold.open();
      const stream = response.sse();
      expect(await stream.end()).toBe('end');
      expect(stream.messages).toEqual([denied(message.id, 'Forbidden resource')]);
    },
  );

  it('a denial when something was sent already is a JSON-RPC error in sse mode, an HTTP status in json mode', async () => {
    for (const [responseMode, status] of [
      ['sse', 200],
      ['json', 403],
    ] as const) {
      const app = await start({ responseMode });
      const client = await app.client(as('anna')).initialize();
      const message = withToken(client, 'tool', 'talkative');
      const response = await client.post(message);
      expect(response.status).toBe(status);
      if (status === 403) {
        expect(await response.json()).toEqual(denied(message.id, 'Forbidden resource'));
        continue;
      }
      const stream = response.sse();
      expect(await stream.end()).toBe('end');
      expect(stream.messages.at(-1)).toEqual(denied(message.id, 'Forbidden resource'));
    }
  });

  it('a denial when something was sent already reaches the official client as an error of that call; others go on', async () => {
    const app = await start();
    const client = await connect(app, as('anna'));
    for (const kind of KINDS) {
      const told: number[] = [];
      const { method, params } = asking(kind, 'talkative');
      const options = { onprogress: ({ progress }: { progress: number }) => void told.push(progress) };
      const calls = [client.request({ method, params } as never, options), askOfficially(client, kind, 'open')];
      const [refused, served] = await Promise.allSettled(calls);
      const { code, message } = (refused as PromiseRejectedResult).reason;
      expect([code, message]).toEqual([-32000, expect.stringContaining('Forbidden resource')]);
      expect(served).toEqual({ status: 'fulfilled', value: 'open' });
      expect(told).toEqual([1]);
    }
  });
});
