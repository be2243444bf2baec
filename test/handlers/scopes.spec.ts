import { setImmediate as nextTurn } from 'node:timers/promises';
import { Inject, Injectable, Module, Scope, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import { APP_GUARD, REQUEST } from '@nestjs/core';
import { Complete, McpExecutionContext, Prompt, toolProgress, type McpContext } from 'nestjs-mcp-streamable';
import { concat, defer, of } from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { askOfficially, KINDS, messageOf, page, resultText, type Kind } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { as } from '../support/users.js';
import { fourOf } from './four.js';

interface HttpRequest {
  headers: Record<string, string | undefined>;
  user?: { sub: string; token: string };
}

let made = 0;

/** Something of one request, which others of the same request share. */
@Injectable({ scope: Scope.REQUEST })
class Basket {
  readonly serial = ++made;
  readonly notes: string[] = [];
  constructor(@Inject(REQUEST) readonly request: HttpRequest) {}
}

/** Lets others go first, now and then. */
async function dawdle(): Promise<void> {
  for (let turn = Math.floor(Math.random() * 4); turn > 0; turn--) await nextTurn();
}

interface Known {
  user: string | undefined;
  call: string | undefined;
  /** Others of the same request, before it. */
  before: string[];
  serial: number;
  same: boolean;
  principal: string | undefined;
}

/** What a handler knows: of the request that its provider was made for, and of its call. */
async function known({ principal, request }: McpContext, { basket }: { basket: Basket }): Promise<string> {
  const before = [...basket.notes];
  const { user, headers } = basket.request;
  basket.notes.push(headers['x-call']!);
  await dawdle();
  const same = basket.request === request;
  return JSON.stringify({ user: user?.sub, call: headers['x-call'], before, serial: basket.serial, same, principal });
}

const run = (context: McpContext, _args: object, self: object) => known(context, self as { basket: Basket });

@Injectable({ scope: Scope.REQUEST })
class RequestHost extends fourOf('request', { run }) {
  constructor(@Inject(Basket) readonly basket: Basket) {
    super();
  }
}
/** Not request-scoped itself, but by what it injects. */
@Injectable()
class InheritedHost extends fourOf('inherited', { run }) {
  constructor(@Inject(Basket) readonly basket: Basket) {
    super();
  }
}
@Injectable({ scope: Scope.TRANSIENT })
class TransientHost extends fourOf('transient', {
  run: async (_context, _args, self) => {
    const host = self as { serial: number; calls: number };
    host.calls++;
    await dawdle();
    return JSON.stringify({ serial: host.serial, calls: host.calls });
  },
}) {
  readonly serial = ++made;
  calls = 0;
}

/** Known by its class alone: Nest makes it for each request. */
@Injectable({ scope: Scope.REQUEST })
class ScopedGuard implements CanActivate {
  constructor(
    @Inject(REQUEST) private readonly request: HttpRequest,
    @Inject(Basket) private readonly basket: Basket,
  ) {}
  async canActivate(context: ExecutionContext): Promise<boolean> {
    if (!McpExecutionContext.isMcp(context)) return true;
    await dawdle();
    this.basket.notes.push(`guarded ${this.request.headers['x-call']}`);
    const same = context.switchToHttp().getRequest() === this.request;
    return same && this.request.user?.token !== 'denied';
  }
}
@Injectable({ scope: Scope.REQUEST })
@UseGuards(ScopedGuard)
class GuardedHost extends fourOf('guarded', { run }) {
  constructor(@Inject(Basket) readonly basket: Basket) {
    super();
  }
}
const Plain = fourOf('plain', { onMethods: [UseGuards(ScopedGuard)] });
const Open = fourOf('open');

@Injectable({ scope: Scope.REQUEST })
class Completing {
  constructor(@Inject(REQUEST) private readonly request: HttpRequest) {}
  @Prompt({ name: 'completing', arguments: [{ name: 'who' }] })
  completing(): string {
    return 'completed';
  }
  @Complete({ prompt: 'completing', argument: 'who' })
  async who(value: string): Promise<string[]> {
    await dawdle();
    return [`${value} ${this.request.user?.sub} ${this.request.headers['x-call']}`];
  }
}

const providers = [Basket, RequestHost, InheritedHost, TransientHost, GuardedHost, Plain, Completing];

describe.each(ONE_ADAPTER)('providers of a request, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers, denials: 'http' });
  const startBare = testApps(adapter, { shared: true, denials: 'http' });
  const connect = officialClients();
  beforeEach(() => {
    made = 0;
  });

  const post = (client: RawClient, kind: Kind, host: string, headers: Record<string, string>) =>
    client.post(messageOf(client, kind, host), headers);
  const answer = async (response: Awaited<ReturnType<RawClient['post']>>): Promise<Known> => {
    const { result, error } = await response.json();
    if (!result) throw new Error(JSON.stringify(error));
    return JSON.parse(resultText(result)) as Known;
  };
  /** Many callers, each in a session of its own, each with many calls of every kind at once. */
  const crowd = async (app: TestApp, host: string): Promise<{ user: string; name: string; answer: Known }[]> => {
    const users = ['anna', 'bert', 'carl', 'dora'];
    const clients = await Promise.all(users.map((user) => app.client(as(user)).initialize()));
    made = 0;
    const calls = users.flatMap((user, n) =>
      Array.from({ length: 8 }, (_, time) => ({
        user,
        client: clients[n]!,
        kind: KINDS[time % 4]!,
        name: `${user}${time}`,
      })),
    );
    return Promise.all(
      calls.map(async ({ user, client, kind, name }) => {
        return { user, name, answer: await answer(await post(client, kind, host, { 'x-call': name })) };
      }),
    );
  };

  it.each(['request', 'inherited'])(
    'providers of a request get the HTTP request of their own call (%s)',
    async (host) => {
      const app = await start();
      const answers = await crowd(app, host);
      for (const { user, name, answer } of answers) {
        expect(answer).toMatchObject({ user, call: name, before: [], same: true, principal: user });
      }
      expect(new Set(answers.map(({ answer }) => answer.serial)).size).toBe(answers.length);
      expect(made).toBe(answers.length);
    },
  );

  it.each(KINDS)('providers of a request get what the guard of the route left on the request (%s)', async (kind) => {
    const app = await start();
    const client = await connect(app, { ...as('anna', 'fresh'), 'x-call': 'official' });
    const told = JSON.parse(await askOfficially(client, kind, 'request')) as Known;
    expect(told).toMatchObject({ user: 'anna', call: 'official', same: true });
  });

  it('providers of a request share instances with request-scoped guards around them only', async () => {
    const app = await start();
    for (const { user, name, answer } of await crowd(app, 'guarded')) {
      expect(answer).toMatchObject({ user, call: name, before: [`guarded ${name}`], same: true });
    }
    const client = await app.client(as('anna')).initialize();
    for (const kind of KINDS) {
      const denied = await post(client, kind, 'guarded', { ...as('anna', 'denied'), 'x-call': 'denied' });
      expect((await denied.json()).error.message).toContain('not found');
    }
  });

  it('providers of a request may be guards of static providers', async () => {
    const app = await start();
    const clients = await Promise.all(['anna', 'bert'].map((user) => app.client(as(user)).initialize()));
    const served = await Promise.all(
      Array.from({ length: 24 }, async (_, n) => {
        const headers = as(n % 2 === 0 ? 'anna' : 'bert', n % 3 === 0 ? 'denied' : 'fresh');
        const response = await post(clients[n % 2]!, KINDS[n % 4]!, 'plain', headers);
        return 'result' in (await response.json());
      }),
    );
    expect(served).toEqual(Array.from({ length: 24 }, (_, n) => n % 3 !== 0));
    // And they decide what lists show.
    for (const kind of KINDS) {
      const [shown, hidden] = await Promise.all([
        page(clients[0]!, kind),
        page(clients[0]!, kind, { headers: as('anna', 'denied') }),
      ]);
      expect(shown.names.filter((name) => /guarded|plain/.test(name))).toHaveLength(2);
      expect(hidden.names.filter((name) => /guarded|plain/.test(name))).toEqual([]);
    }
  });

  it('providers of a request may be guards of the whole app', async () => {
    const guard = { provide: APP_GUARD, useClass: ScopedGuard, scope: Scope.REQUEST };
    const app = await start({ providers: [Open, guard] });
    const client = await app.client(as('anna')).initialize();
    for (const kind of KINDS) {
      const [let_, denied] = await Promise.all([
        post(client, kind, 'open', {}),
        post(client, kind, 'open', as('anna', 'denied')),
      ]);
      expect([let_.status, denied.status]).toEqual([200, 403]);
      for (const response of [let_, denied]) await response.text();
    }
  });

  it('providers of a request are made anew for each call when they are transient', async () => {
    const app = await start();
    const client = await app.client().initialize();
    const answers = await Promise.all(
      Array.from({ length: 16 }, (_, n) => post(client, KINDS[n % 4]!, 'transient', {}).then(answer)),
    );
    expect(answers.every((answer) => (answer as unknown as { calls: number }).calls === 1)).toBe(true);
    expect(new Set(answers.map(({ serial }) => serial)).size).toBe(16);
  });

  it('providers of a request are shared by the messages of a batch, which is one HTTP request', async () => {
    const app = await start();
    const client = await app.client(as('anna')).initialize('2025-03-26');
    const batch = KINDS.map((kind) => messageOf(client, kind, 'request'));
    const response = await client.post(batch, { 'x-call': 'batch' });
    const answers = (await response.json()) as { result: object }[];
    const told = answers.map(({ result }) => JSON.parse(resultText(result)) as Known);
    expect(new Set(told.map(({ serial }) => serial))).toEqual(new Set([1]));
    expect(told.map(({ before }) => before.length).toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3]);
  });

  it('providers of a request complete arguments for their own caller', async () => {
    const app = await start();
    const clients = await Promise.all(['anna', 'bert'].map((user) => app.client(as(user)).initialize()));
    const proposals = await Promise.all(
      Array.from({ length: 20 }, async (_, n) => {
        const client = clients[n % 2]!;
        const params = { ref: { type: 'ref/prompt', name: 'completing' }, argument: { name: 'who', value: 'I am' } };
        const message = { jsonrpc: '2.0', id: client.nextId(), method: 'completion/complete', params };
        return (await (await client.post(message, { 'x-call': `call${n}` })).json()).result.completion.values;
      }),
    );
    expect(proposals).toEqual(proposals.map((_, n) => [`I am ${n % 2 === 0 ? 'anna' : 'bert'} call${n}`]));
  });

  it('providers of a request stay the same while an Observable goes on', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Streaming extends fourOf('streaming', {
      run: (context, _args, self) =>
        concat(
          of(toolProgress(1)),
          defer(() => dawdle().then(() => toolProgress(2))),
          defer(() => known(context, self as { basket: Basket })),
        ),
    }) {
      constructor(@Inject(Basket) readonly basket: Basket) {
        super();
      }
    }
    const app = await start({ providers: [Streaming] });
    const clients = await Promise.all(['anna', 'bert'].map((user) => app.client(as(user)).initialize()));
    await Promise.all(
      Array.from({ length: 16 }, async (_, n) => {
        const client = clients[n % 2]!;
        const message = messageOf(client, KINDS[n % 4]!, 'streaming');
        const params = { ...message.params, _meta: { progressToken: n } };
        const stream = (await client.post({ ...message, params }, { 'x-call': `call${n}` })).sse();
        expect(await stream.end()).toBe('end');
        expect(stream.messages.slice(0, -1).map(({ params }) => params.progressToken)).toEqual([n, n]);
        const told = JSON.parse(resultText(stream.messages.at(-1).result)) as Known;
        expect(told).toMatchObject({ user: n % 2 === 0 ? 'anna' : 'bert', call: `call${n}`, same: true, before: [] });
      }),
    );
  });

  it('providers of a request share instances with a request-scoped guard of the endpoint', async () => {
    @Module({ providers: [Basket], exports: [Basket] })
    class BasketModule {}
    @Injectable()
    class RouteGuard implements CanActivate {
      constructor(@Inject(Basket) private readonly basket: Basket) {}
      async canActivate(context: ExecutionContext): Promise<boolean> {
        const request = context.switchToHttp().getRequest();
        request.user = { sub: request.headers['x-user'], token: '' };
        await dawdle();
        this.basket.notes.push(`route of ${request.headers['x-user']}`);
        return this.basket.request === request;
      }
    }
    @Injectable()
    class Host extends fourOf('host', { run }) {
      constructor(@Inject(Basket) readonly basket: Basket) {
        super();
      }
    }
    @Module({ imports: [BasketModule], providers: [Host] })
    class HostModule {}
    const module = { imports: [HostModule] };
    const app = await startBare({ imports: [BasketModule], guards: [RouteGuard], module });
    const clients = await Promise.all(['anna', 'bert'].map((user) => app.client({ 'x-user': user }).initialize()));
    await Promise.all(
      Array.from({ length: 16 }, async (_, n) => {
        const told = await answer(await post(clients[n % 2]!, KINDS[n % 4]!, 'host', { 'x-call': `call${n}` }));
        const user = n % 2 === 0 ? 'anna' : 'bert';
        expect(told).toMatchObject({ user, call: `call${n}`, before: [`route of ${user}`], same: true });
      }),
    );
  });
});
