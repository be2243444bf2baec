import {
  ForbiddenException,
  Inject,
  Injectable,
  Scope,
  UnauthorizedException,
  UseGuards,
  type CanActivate,
  type ExecutionContext,
} from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import {
  Complete,
  McpArgs,
  McpCtx,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  type McpContext,
} from 'nestjs-mcp-streamable';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { Roles, RolesGuard } from '../handlers/roles.js';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { asking, KINDS, LISTS, resultText, type Kind } from '../support/kinds.js';
import { ModernClient } from '../support/modern-client.js';
import { expectRefusal } from '../support/refusal.js';
import { as, trustingGuard } from '../support/users.js';

let validated: number;
let made: number;

/** Something of one request. */
@Injectable({ scope: Scope.REQUEST })
class Basket {
  readonly serial: number;
  constructor(@Inject(REQUEST) readonly request: { user?: { sub: string }; headers: Record<string, string> }) {
    made += 1;
    this.serial = made;
  }
}

@Injectable()
class Shop {
  @Tool({ name: 'open' })
  open(): string {
    return 'open';
  }
  @Prompt({ name: 'open' })
  openPrompt(): string {
    return 'open';
  }
  @Resource({ uri: 'open://fixed', name: 'open' })
  openResource(): string {
    return 'open';
  }
  @ResourceTemplate({ uriTemplate: 'open://{id}/of', name: 'open-of' })
  openTemplate(): string {
    return 'open';
  }
}

@Injectable()
@UseGuards(RolesGuard)
@Roles(['admin'])
class Office {
  @Tool({
    name: 'office',
    inputSchema: z.object({ id: z.string().refine(() => ++validated > 0) }).partial(),
  })
  tool(): string {
    return 'office';
  }
  @Prompt({ name: 'office', arguments: [{ name: 'city', required: false }] })
  prompt(): string {
    return 'office';
  }
  @Complete({ prompt: 'office', argument: 'city' })
  cities(): string[] {
    return ['Bonn'];
  }
  @Resource({ uri: 'office://fixed', name: 'office' })
  resource(): string {
    return 'office';
  }
  @ResourceTemplate({ uriTemplate: 'office://{id}/of', name: 'office-of' })
  template(): string {
    return 'office';
  }
}

@Injectable()
class Scoped {
  constructor(@Inject(Basket) readonly basket: Basket) {}

  @Tool({ name: 'scoped', inputSchema: z.object({ n: z.number() }) })
  async scoped(@McpArgs() { n }: { n: number }, @McpCtx() { principal, request }: McpContext): Promise<object> {
    for (let turn = n % 4; turn > 0; turn--) await new Promise(setImmediate);
    const { serial, request: own } = this.basket;
    return { n, serial, principal, user: own.user?.sub, call: own.headers['x-call'], same: own === request };
  }
}

/** Of the route: who sends `x-deny` is denied with that status. */
const doorman: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const http = context.switchToHttp();
    const { headers } = http.getRequest();
    if (headers['x-deny'] === '401') {
      http.getResponse().header('WWW-Authenticate', 'Bearer');
      throw new UnauthorizedException('Who are you?');
    }
    if (headers['x-deny'] === '403') throw new ForbiddenException('Not you');
    return headers['x-deny'] !== 'false';
  },
};

describe.each(ONE_ADAPTER)('guards and scopes of modern requests, on %s', (adapter) => {
  const start = testApps(adapter, {
    shared: true,
    providers: [Shop, Office, RolesGuard, Scoped, Basket],
    guards: [doorman, trustingGuard],
    denials: 'http',
  });
  beforeEach(() => {
    [validated, made] = [0, 0];
  });
  const client = (app: TestApp, headers = {}): ModernClient => new ModernClient(app.url, headers);
  const ask = (made: ModernClient, kind: Kind, host: string, args = {}, id: string | number = 1) => {
    const { method, params } = asking(kind, host, args);
    return made.request(method, params, { id });
  };

  it.each([
    ['401', 401, 'Who are you?'],
    ['403', 403, 'Not you'],
    ['false', 403, 'Forbidden'],
  ])(
    'E3: a guard of the route that denies with %s does so by HTTP, before the body is read',
    async (deny, status, says) => {
      const app = await start();
      const denied = client(app, { 'x-deny': deny });
      for (const body of [denied.message('tools/list'), '{"not json', denied.message('no/such')]) {
        const response = await denied.post(body, denied.headersOf(denied.message('tools/list')));
        expect(response.status).toBe(status);
        if (status === 401) expect(response.header('www-authenticate')).toBe('Bearer');
        expect((await response.json()).error.message).toMatch(says);
      }
    },
  );

  it.each(KINDS)(
    'guards: the guards of a handler deny with the HTTP status 401, or hide the handler from the caller (%s)',
    async (kind) => {
      const app = await start();
      const unknown = await ask(client(app), kind, 'office');
      await expectRefusal(unknown, { status: 401, code: -32000, id: 1, says: ['Who are you?'] });
      expect(unknown.header('www-authenticate')).toBe('Bearer realm="shop"');
      const clerk = await ask(client(app, as('bert', 'clerk')), kind, 'office', {}, 'x');
      await expectRefusal(clerk, { status: 200, code: -32602, id: 'x', says: ['not found'] });
      const admin = await ask(client(app, as('anna', 'admin')), kind, 'office');
      expect(admin.status).toBe(200);
      expect(resultText((await admin.json()).result)).toBe('office');
      await app.settled({ inFlight: 0, openResponses: 0, timers: 0 });
    },
  );

  it('guards: the guards of a handler decide before arguments are validated', async () => {
    const app = await start();
    for (const args of [{ id: 'fine' }, { id: 7 }]) {
      const response = await ask(client(app, as('bert', 'clerk')), 'tool', 'office', args);
      await expectRefusal(response, { status: 200, code: -32602, id: 1, says: ['not found'] });
    }
    expect(validated).toBe(0);
    const admin = await ask(client(app, as('anna', 'admin')), 'tool', 'office', { id: 7 });
    expect((await admin.json()).result.isError).toBe(true);
    await (await ask(client(app, as('anna', 'admin')), 'tool', 'office', { id: 'fine' })).text();
    expect(validated).toBe(1);
  });

  it('guards: in sse mode a denial of a guard is in the stream', async () => {
    const app = await start({ responseMode: 'sse' });
    const response = await ask(client(app, as('bert', 'clerk')), 'tool', 'office');
    expect(response.status).toBe(200);
    const stream = response.sse();
    await stream.end();
    expect(stream.messages).toMatchObject([{ id: 1, error: { code: -32602 } }]);
  });

  it.each(KINDS)(
    'lists: each caller gets its own list, also when requests of callers interleave (%s)',
    async (kind) => {
      const app = await start();
      const { method, field, key } = LISTS[kind];
      const names = async (headers: object): Promise<string[]> => {
        const { result } = await client(app, headers).ask(method, {}, { id: 1 });
        return result[field].map((entry: Record<string, string>) => entry[key]);
      };
      const asked = await Promise.all(
        Array.from({ length: 30 }, (_, n) => names([{}, as('bert', 'clerk'), as('anna', 'admin')][n % 3]!)),
      );
      for (const [n, seen] of asked.entries()) {
        expect(seen.some((name) => name.startsWith('office'))).toBe(n % 3 === 2);
        expect(seen.some((name) => name.startsWith('open'))).toBe(true);
      }
    },
  );

  it('lists: a caller from whom guards hide a prompt gets no completion of its arguments', async () => {
    const app = await start();
    const params = { ref: { type: 'ref/prompt', name: 'office' }, argument: { name: 'city', value: 'B' } };
    const admin = await client(app, as('anna', 'admin')).ask('completion/complete', params);
    expect(admin.result.completion.values).toEqual(['Bonn']);
    const clerk = await client(app, as('bert', 'clerk')).ask('completion/complete', params);
    const nothing = { ...params, ref: { type: 'ref/prompt', name: 'nothing' } };
    const none = await client(app, as('bert', 'clerk')).ask('completion/complete', nothing);
    // As if there were none.
    expect([clerk.error.code, none.error.code]).toEqual([-32602, -32602]);
  });

  it('request scope: each request has request-scoped providers of its own', async () => {
    const app = await start();
    const users = ['anna', 'bert', 'cleo'];
    const results = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const headers = { ...as(users[n % 3]!), 'x-call': `call ${n}` };
        const { result } = await client(app, headers).ask(
          'tools/call',
          { name: 'scoped', arguments: { n } },
          { id: 1 },
        );
        return result.structuredContent;
      }),
    );
    for (const [n, result] of results.entries()) {
      const user = users[n % 3];
      expect(result).toEqual({ n, serial: expect.any(Number), principal: user, user, call: `call ${n}`, same: true });
    }
    expect(new Set(results.map(({ serial }) => serial)).size).toBe(60);
  });
});
