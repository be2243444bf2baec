import { setImmediate as nextTurn } from 'node:timers/promises';
import { Inject, Injectable, Scope } from '@nestjs/common';
import {
  ContextIdFactory,
  REQUEST,
  type ContextId,
  type ContextIdStrategy,
  type HostComponentInfo,
} from '@nestjs/core';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { KINDS, messageOf, resultText, type Kind } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { as } from '../support/users.js';
import { fourOf } from './four.js';

let made: string[] = [];

/** As in Nest's documentation: what is durable lives as long as a tenant. */
class ByTenant implements ContextIdStrategy {
  readonly #tenants = new Map<string, ContextId>();
  attach(contextId: ContextId, request: { headers: Record<string, string> }) {
    const tenant = request.headers['x-tenant'] ?? 'none';
    const ofTenant = this.#tenants.get(tenant) ?? ContextIdFactory.create();
    this.#tenants.set(tenant, ofTenant);
    return {
      resolve: (info: HostComponentInfo) => (info.isTreeDurable ? ofTenant : contextId),
      payload: { tenant },
    };
  }
}

@Injectable({ scope: Scope.REQUEST, durable: true })
class Connection {
  queries = 0;
  readonly id: number;
  constructor(@Inject(REQUEST) readonly payload: { tenant: string }) {
    this.id = made.push(payload.tenant);
  }
}

@Injectable({ scope: Scope.REQUEST, durable: true })
class DurableHost extends fourOf('durable', {
  run: async (_context, _args, self) => {
    const { connection } = self as { connection: Connection };
    const query = ++connection.queries;
    await nextTurn();
    return JSON.stringify({ tenant: connection.payload.tenant, connection: connection.id, query });
  },
}) {
  constructor(@Inject(Connection) readonly connection: Connection) {
    super();
  }
}

interface HttpRequest {
  user?: { sub: string };
}

/** Of one request, with something of its tenant in it. */
@Injectable({ scope: Scope.REQUEST })
class MixedHost extends fourOf('mixed', {
  run: async (context, _args, self) => {
    const { request, connection } = self as { request: HttpRequest; connection: Connection };
    await nextTurn();
    return JSON.stringify({
      tenant: connection.payload.tenant,
      user: request.user?.sub,
      same: request === context.request,
    });
  },
}) {
  constructor(
    @Inject(REQUEST) readonly request: HttpRequest,
    @Inject(Connection) readonly connection: Connection,
  ) {
    super();
  }
}

describe.each(ONE_ADAPTER)('durable providers on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Connection, DurableHost, MixedHost] });
  beforeEach(() => {
    made = [];
    ContextIdFactory.apply(new ByTenant());
  });
  afterEach(() => ContextIdFactory.apply(undefined as never));

  /** What each process makes for itself, sorted. */
  const byEach = ({ nodes }: TestApp, tenants: string[]): string[] => nodes.flatMap(() => tenants).toSorted();

  const ask = async (client: RawClient, kind: Kind, host: string, headers: Record<string, string>) => {
    const { result, error } = await (await client.post(messageOf(client, kind, host), headers)).json();
    if (!result) throw new Error(JSON.stringify(error));
    return JSON.parse(resultText(result));
  };

  it('durable providers are made once for each tenant, also by calls that come at the same time', async () => {
    const app = await start();
    const clients = await Promise.all(['anna', 'bert'].map((user) => app.client(as(user)).initialize()));
    const tenants = ['north', 'south', 'west'];
    const answers = await Promise.all(
      Array.from({ length: 36 }, (_, n) =>
        ask(clients[n % 2]!, KINDS[n % 4]!, 'durable', { 'x-tenant': tenants[n % 3]! }),
      ),
    );
    expect(answers.map(({ tenant }) => tenant)).toEqual(answers.map((_, n) => tenants[n % 3]));
    expect(made.toSorted()).toEqual(byEach(app, tenants));
    // All queries of a tenant on its connection, that of the process, whoever asked.
    for (const [n, tenant] of made.entries()) {
      const asked = answers.filter(({ connection }) => connection === n + 1);
      expect(new Set(asked.map((each) => each.tenant))).toEqual(new Set([tenant]));
      const queries = asked.map(({ query }) => query as number);
      expect(queries.toSorted((a, b) => a - b)).toEqual(Array.from({ length: asked.length }, (_, query) => query + 1));
    }
  });

  it('durable providers are injected into request-scoped providers, which are made for each request', async () => {
    const app = await start();
    const clients = await Promise.all(['anna', 'bert'].map((user) => app.client(as(user)).initialize()));
    const tenants = ['north', 'south', 'west'];
    const answers = await Promise.all(
      Array.from({ length: 24 }, (_, n) =>
        ask(clients[n % 2]!, KINDS[n % 4]!, 'mixed', { 'x-tenant': tenants[n % 3]! }),
      ),
    );
    expect(answers).toEqual(
      answers.map((_, n) => ({ tenant: tenants[n % 3], user: n % 2 === 0 ? 'anna' : 'bert', same: true })),
    );
    expect(made.toSorted()).toEqual(byEach(app, tenants));
  });
});
