import { UseGuards } from '@nestjs/common';
import { LEGACY_REVISIONS } from 'nestjs-mcp-streamable/server';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { askOfficially, KINDS, LISTS, messageOf, nameOf, page, resultText, type Kind } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { as } from '../support/users.js';
import { fourOf } from './four.js';
import { Roles, RolesGuard } from './roles.js';

/** Who may have what: the class says that there are roles, the methods say which. */
const OnlyAdmins = fourOf('admins', { onClass: [UseGuards(RolesGuard)], onMethods: [Roles(['admin'])] });
const OnlyMembers = fourOf('members', { onMethods: [UseGuards(RolesGuard), Roles(['member', 'admin'])] });
const ForAll = fourOf('all');
const HOSTS = ['admins', 'members', 'all'] as const;
const providers = [OnlyAdmins, OnlyMembers, ForAll];

/** Which of the hosts a caller sees and may call. */
const RIGHTS: Readonly<Record<string, readonly string[]>> = {
  admin: ['admins', 'members', 'all'],
  member: ['members', 'all'],
  guest: ['all'],
};
const seenBy = (role: string, kind: Kind): string[] => RIGHTS[role]!.map((host) => nameOf(kind, host));

describe.each(ONE_ADAPTER)('an endpoint whose callers have different rights, on %s', (adapter) => {
  // Answers are JSON, however long a busy machine takes for them.
  const start = testApps(adapter, { shared: true, providers, denials: 'http' });
  const connect = officialClients();
  const session = (app: TestApp, user: string, role: string, revision: string = LEGACY_REVISIONS[0]) =>
    app.client(as(user, role)).initialize(revision);

  it.each(KINDS)(
    'an endpoint whose callers have different rights lists to each caller the entries that it may use (%s)',
    async (kind) => {
      const app = await start();
      const [admin, member] = [await session(app, 'anna', 'admin'), await session(app, 'bert', 'member')];
      const nobody = await app.client().initialize();
      expect((await page(admin, kind)).names).toEqual(seenBy('admin', kind));
      expect((await page(member, kind)).names).toEqual(seenBy('member', kind));
      expect((await page(nobody, kind)).names).toEqual([nameOf(kind, 'all')]);
    },
  );

  it('an endpoint whose callers have different rights lists the same to official clients, and serves them', async () => {
    const app = await start();
    for (const role of ['admin', 'member', 'guest']) {
      const client = await connect(app, as('anna', role));
      const [{ tools }, { resources }, { resourceTemplates }, { prompts }] = await Promise.all([
        client.listTools(),
        client.listResources(),
        client.listResourceTemplates(),
        client.listPrompts(),
      ]);
      const listed = { tools, resources, resourceTemplates, prompts };
      for (const kind of KINDS) {
        const { field, key } = LISTS[kind];
        const entries = listed[field as keyof typeof listed] as object[];
        expect(entries.map((entry) => Reflect.get(entry, key))).toEqual(seenBy(role, kind));
        for (const host of HOSTS) {
          const asked = askOfficially(client, kind, host);
          if (RIGHTS[role]!.includes(host)) expect(await asked).toBe(host);
          else await expect(asked).rejects.toThrow(/not found/);
        }
      }
    }
  });

  it('an endpoint whose callers have different rights decides by the rights of each request, also within one session', async () => {
    const app = await start();
    const client = await session(app, 'anna', 'guest');
    const asRole = (role: string) => ({ headers: as('anna', role) });
    const roles = ['admin', 'member', 'guest', 'admin', 'guest'];
    const lists = await Promise.all(roles.map((role) => page(client, 'tool', asRole(role))));
    expect(lists.map(({ names }) => names)).toEqual(roles.map((role) => seenBy(role, 'tool')));
    const calls = await Promise.all(
      roles.map((role) => client.post(messageOf(client, 'tool', 'admins'), as('anna', role))),
    );
    const served = await Promise.all(calls.map(async (response) => 'result' in (await response.json())));
    expect(served).toEqual([true, false, false, true, false]);
  });

  it('an endpoint whose callers have different rights mixes up no callers that list and call at the same time', async () => {
    const app = await start();
    const callers = await Promise.all(
      ['admin', 'member', 'guest', 'admin', 'member', 'guest'].map(async (role, n) => {
        return { role, client: await session(app, `user${n}`, role) };
      }),
    );
    /** Everything that one caller can do, all at once. */
    const everything = (client: RawClient, role: string): Promise<void>[] => [
      ...KINDS.map(async (kind) => expect((await page(client, kind)).names).toEqual(seenBy(role, kind))),
      ...KINDS.flatMap((kind) =>
        HOSTS.map(async (host) => {
          const message = messageOf(client, kind, host);
          const response = await client.post(message);
          const allowed = RIGHTS[role]!.includes(host);
          if (!allowed) return void (await expectRefusal(response, { status: 200, code: -32602, id: message.id }));
          const { id, result } = await response.json();
          expect([id, resultText(result)]).toEqual([message.id, host]);
        }),
      ),
    ];
    for (let round = 0; round < 5; round++) {
      await Promise.all(callers.flatMap(({ client, role }) => everything(client, role)));
    }
    await app.settled({ live: 6, inFlight: 0, streams: 0, openResponses: 0 });
  });

  it.each(KINDS)(
    'an endpoint whose callers have different rights answers a call of a hidden entry with "not found", or with HTTP 401 before the head (%s)',
    async (kind) => {
      const app = await start();
      const member = await session(app, 'bert', 'member');
      const message = messageOf(member, kind, 'admins');
      const refusal = { status: 200, code: -32602, id: message.id, says: ['not found'] };
      const forbidden = await member.post(message);
      expect(forbidden.header('www-authenticate')).toBeUndefined();
      await expectRefusal(forbidden, refusal);

      const nobody = await app.client().initialize();
      const unknown = messageOf(nobody, kind, 'members');
      const unauthorized = await nobody.post(unknown);
      expect(unauthorized.header('www-authenticate')).toBe('Bearer realm="shop"');
      await expectRefusal(unauthorized, { status: 401, code: -32000, id: unknown.id, says: ['Who are you?'] });
      // The session goes on, and nothing of it is logged.
      await app.settled({ live: 2, inFlight: 0, events: 0, loggedStreams: 0 });
      expect(resultText((await (await member.post(messageOf(member, kind, 'members'))).json()).result)).toBe('members');
    },
  );

  it('an endpoint whose callers have different rights denies a call of a batch in JSON-RPC, and serves the others', async () => {
    const app = await start();
    const client = await session(app, 'bert', 'member', '2025-03-26');
    const batch = KINDS.flatMap((kind) => HOSTS.map((host) => messageOf(client, kind, host)));
    const response = await client.post(batch);
    expect(response.status).toBe(200);
    const answers = (await response.json()) as { id: number; result?: object; error?: object }[];
    const byId = new Map(answers.map((answer) => [answer.id, answer]));
    expect(byId.size).toBe(batch.length);
    for (const [index, { id }] of batch.entries()) {
      const host = HOSTS[index % HOSTS.length]!;
      const { result, error } = byId.get(id)!;
      if (host === 'admins')
        expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('not found') });
      else expect(resultText(result)).toBe(host);
    }
  });

  it('neither completes nor subscribes to entries that a caller may not see', async () => {
    const app = await start();
    const [admin, member] = [await session(app, 'anna', 'admin'), await session(app, 'bert', 'member')];
    const outcome = async (client: RawClient, method: string, params: object): Promise<unknown> => {
      const { result, error } = await (
        await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params })
      ).json();
      return error?.code ?? result;
    };
    const argument = { name: 'id', value: '' };
    for (const ref of [
      { type: 'ref/prompt', name: 'admins' },
      { type: 'ref/resource', uri: nameOf('template', 'admins') },
    ]) {
      const nothing = { completion: { values: [], total: 0, hasMore: false } };
      expect(await outcome(admin, 'completion/complete', { ref, argument })).toEqual(nothing);
      expect(await outcome(member, 'completion/complete', { ref, argument })).toBe(-32602);
    }
    for (const uri of ['admins://fixed', 'admins://7/of']) {
      const there = await outcome(member, 'resources/subscribe', { uri: 'nowhere://at/all' });
      expect(await outcome(member, 'resources/subscribe', { uri })).toBe(there);
      expect(await outcome(admin, 'resources/subscribe', { uri })).toEqual({});
    }
    const records = await app.service.list();
    const subscribed = records.map(({ subscriptions }) => subscriptions.toSorted());
    expect(subscribed).toEqual([['admins://7/of', 'admins://fixed'], []]);
  });
});
