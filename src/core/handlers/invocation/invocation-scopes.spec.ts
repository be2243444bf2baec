import { Inject, Injectable, Scope, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import {
  APP_GUARD,
  ContextIdFactory,
  REQUEST,
  type ContextId,
  type ContextIdStrategy,
  type HostComponentInfo,
} from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, EntryProvider, InvokingApp, TestedClient } from '../../../../test/support/invoking-app.js';

let made = 0;

@Injectable({ scope: Scope.REQUEST })
class CurrentUser {
  readonly serial = ++made;
  name = 'nobody';
}

@Injectable()
class NamingGuard implements CanActivate {
  constructor(private readonly user: CurrentUser) {}
  canActivate(context: ExecutionContext): boolean {
    this.user.name = context.switchToHttp().getRequest().headers['x-caller'] ?? 'nobody';
    return this.user.name !== 'bert';
  }
}

@EntryProvider()
@Injectable({ scope: Scope.REQUEST })
class OfRequest {
  constructor(
    @Inject(REQUEST) private readonly request: { headers: Record<string, string> },
    private readonly user: CurrentUser,
  ) {}
  @UseGuards(NamingGuard)
  who() {
    const { 'x-caller': caller } = this.request.headers;
    return { caller, user: this.user.name, serial: this.user.serial };
  }
}

@EntryProvider()
@Injectable()
class Plain {
  run() {
    return 'ran';
  }
}

@EntryProvider()
@Injectable({ scope: Scope.TRANSIENT })
class Transient {
  readonly serial = ++made;
  run() {
    return this.serial;
  }
}

@EntryProvider()
@Injectable({ scope: Scope.REQUEST, durable: true })
class Durable {
  readonly serial: number;
  constructor(@Inject(REQUEST) private readonly payload: { tenant: string }) {
    this.serial = ++made;
  }
  run() {
    return { ...this.payload, serial: this.serial };
  }
}

/** Identifies tenants as in Nest's documentation. */
class ByTenant implements ContextIdStrategy {
  readonly #tenants = new Map<string, ContextId>();
  attach(contextId: ContextId, request: { headers: Record<string, string> }) {
    const tenant = request.headers['x-tenant']!;
    const ofTenant = this.#tenants.get(tenant) ?? ContextIdFactory.create();
    this.#tenants.set(tenant, ofTenant);
    return {
      resolve: (info: HostComponentInfo) => (info.isTreeDurable ? ofTenant : contextId),
      payload: { tenant },
    };
  }
}

describe.each(ONE_ADAPTER)('providers that are not static, on %s', (adapter) => {
  let app: InvokingApp;
  beforeEach(() => {
    made = 0;
  });
  afterEach(async () => {
    ContextIdFactory.apply(undefined as never);
    await app.close();
  });

  it('the invoker of a handler gives them the HTTP request, and shares what they share with their guards', async () => {
    app = await InvokingApp.start({ adapter, providers: [CurrentUser, OfRequest] });
    const callers = ['anna', 'carl', 'dora'];
    const run = (caller: string) => app.run({ handler: 'OfRequest.who' }, { 'x-caller': caller });
    const values = (await Promise.all(callers.map(run))) as { caller: string; user: string; serial: number }[];
    expect(values.map(({ caller, user }) => [caller, user])).toEqual(callers.map((caller) => [caller, caller]));
    expect(new Set(values.map(({ serial }) => serial)).size).toBe(3);
    await expect(run('bert')).rejects.toMatchObject({ status: 403 });
  });

  it('the invoker of a handler shares them among the calls of one HTTP request, also while they are being made', async () => {
    app = await InvokingApp.start({ adapter, providers: [CurrentUser, OfRequest] });
    const invoker = app.invoker({ handler: 'OfRequest.who' });
    const client = new TestedClient();
    const values = (await app.within(
      (request) => Promise.all([1, 2, 3].map(() => invoker.run({}, client.context(request)))),
      { 'x-caller': 'anna' },
    )) as { serial: number }[];
    expect(values.map(({ serial }) => serial)).toEqual([1, 1, 1]);
  });

  it('the invoker of a handler shares them with a request-scoped guard of the route', async () => {
    @Injectable()
    class RouteGuard implements CanActivate {
      constructor(private readonly user: CurrentUser) {}
      canActivate(): boolean {
        this.user.name ||= 'nobody';
        return true;
      }
    }
    const guard = { provide: APP_GUARD, useClass: RouteGuard, scope: Scope.REQUEST };
    app = await InvokingApp.start({ adapter, providers: [CurrentUser, OfRequest, guard] });
    const value = await app.run({ handler: 'OfRequest.who' }, { 'x-caller': 'anna' });
    expect(value).toEqual({ caller: 'anna', user: 'anna', serial: 1 });
  });

  it('the invoker of a handler runs a request-scoped APP_GUARD around a provider that is static by itself', async () => {
    const guard = { provide: APP_GUARD, useClass: NamingGuard, scope: Scope.REQUEST };
    app = await InvokingApp.start({ adapter, providers: [CurrentUser, Plain, guard] });
    expect(await app.run({ handler: 'Plain.run' }, { 'x-caller': 'anna' })).toBe('ran');
    const invoker = app.invoker({ handler: 'Plain.run' });
    const headers = { 'x-caller': 'anna' };
    // The route lets anna in, and asks the guard about bert only when the handler runs.
    const asBert = async (request: unknown) => {
      (request as { headers: Record<string, string> }).headers['x-caller'] = 'bert';
      return invoker.run({}, new TestedClient().context(request));
    };
    await expect(app.within(asBert, headers)).rejects.toMatchObject({ status: 403 });
  });

  it('the invoker of a handler makes a transient provider anew for each call', async () => {
    app = await InvokingApp.start({ adapter, providers: [Transient] });
    const invoker = app.invoker({ handler: 'Transient.run' });
    const run = (request: unknown) => invoker.run({}, new TestedClient().context(request));
    const [first, second] = (await app.within((request) => Promise.all([run(request), run(request)]))) as number[];
    expect(first).not.toBe(second);
  });

  it('the invoker of a handler makes a durable provider once for each tenant, and gives it what the strategy says', async () => {
    ContextIdFactory.apply(new ByTenant());
    app = await InvokingApp.start({ adapter, providers: [Durable, CurrentUser, OfRequest] });
    const run = (tenant: string) => app.run({ handler: 'Durable.run' }, { 'x-tenant': tenant });
    expect(await run('north')).toEqual({ tenant: 'north', serial: 1 });
    expect(await run('south')).toEqual({ tenant: 'south', serial: 2 });
    expect(await run('north')).toEqual({ tenant: 'north', serial: 1 });
    const both = await app.within(
      (request) =>
        Promise.all(
          ['Durable.run', 'OfRequest.who'].map((handler) =>
            app.invoker({ handler }).run({}, new TestedClient().context(request)),
          ),
        ),
      { 'x-tenant': 'south', 'x-caller': 'anna' },
    );
    expect(both).toEqual([
      { tenant: 'south', serial: 2 },
      { caller: 'anna', user: 'anna', serial: 3 },
    ]);
  });

  it('the invoker of a handler leaves the request of others alone when a durable provider needs the one of a scoped route', async () => {
    ContextIdFactory.apply(new ByTenant());
    const guard = { provide: APP_GUARD, useClass: NamingGuard, scope: Scope.REQUEST };
    app = await InvokingApp.start({ adapter, providers: [Durable, CurrentUser, OfRequest, guard] });
    const headers = { 'x-tenant': 'south', 'x-caller': 'anna' };
    const value = await app.within(async (request) => {
      const run = (handler: string) => app.invoker({ handler }).run({}, new TestedClient().context(request));
      await run('Durable.run');
      return run('OfRequest.who');
    }, headers);
    expect(value).toMatchObject({ caller: 'anna', user: 'anna' });
  });
});
