import { Injectable, UseGuards, type CanActivate, type ExecutionContext } from '@nestjs/common';
import type { McpRegistry } from 'nestjs-mcp-streamable';
import { describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, registryOf, testApps } from '../support/test-apps.js';
import { KINDS, LISTS, page, type Kind } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { as } from '../support/users.js';
import { fourOf } from './four.js';

const handler = (): string => 'here';

function register(registry: McpRegistry, kind: Kind, name: string): { key: string; remove(): boolean } {
  switch (kind) {
    case 'tool':
      return registry.registerTool({ name, handler });
    case 'resource':
      return registry.registerResource({ uri: `${name}://fixed`, name, handler });
    case 'template':
      return registry.registerResourceTemplate({ uriTemplate: `${name}://{id}`, name, handler });
    case 'prompt':
      return registry.registerPrompt({ name, handler });
  }
}

/** Sees what is for everybody, and what has his name. */
@Injectable()
class NameGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.getClass().name.startsWith(context.switchToHttp().getRequest().user?.sub);
  }
}

describe.each(ONE_ADAPTER)('lists page by page on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, pageSize: 3 });
  const connect = officialClients();

  const startWith = async (kind: Kind, count: number) => {
    const app = await start();
    const entries = Array.from({ length: count }, (_, n) => register(registryOf(app), kind, `n${n}`));
    const client = await app.client().initialize();
    return { app, client, entries, keys: entries.map(({ key }) => key) };
  };
  const walk = async (client: RawClient, kind: Kind, cursor?: string): Promise<string[][]> => {
    const { names, nextCursor } = await page(client, kind, { cursor });
    return nextCursor === undefined ? [names] : [names, ...(await walk(client, kind, nextCursor))];
  };
  /** How a request with a cursor is answered that is none of ours. */
  const refusal = async (client: RawClient, kind: Kind, cursor: unknown) => {
    const message = { jsonrpc: '2.0', id: client.nextId(), method: LISTS[kind].method, params: { cursor } };
    const response = await client.post(message);
    const body = await response.json();
    expect([response.status, body.id, body.result]).toEqual([200, message.id, undefined]);
    return body.error as { code: number; message: string };
  };

  it.each(KINDS)('lists in pages are complete, in order, and end (%s)', async (kind) => {
    for (const count of [0, 1, 3, 4, 6, 8]) {
      const { client, keys } = await startWith(kind, count);
      const pages = await walk(client, kind);
      expect(pages.flat()).toEqual(keys);
      // No page that has nothing, and none that is not full but the last.
      expect(pages).toHaveLength(Math.max(1, Math.ceil(count / 3)));
      expect(pages.slice(0, -1).every(({ length }) => length === 3)).toBe(true);
    }
  });

  it.each(KINDS)(
    'lists in pages have stable cursors: the same each time, in each session, and later (%s)',
    async (kind) => {
      const { app, client } = await startWith(kind, 8);
      const { nextCursor } = await page(client, kind);
      expect(nextCursor).toMatch(/^[\w-]+$/);
      const second = await page(client, kind, { cursor: nextCursor });
      expect(await page(client, kind)).toMatchObject({ nextCursor });
      expect(await page(client, kind, { cursor: nextCursor })).toEqual(second);
      const other = await app.client().initialize();
      expect(await page(other, kind, { cursor: nextCursor })).toEqual(second);
      await app.release(client.sessionId!);
      expect(await page(client, kind, { cursor: nextCursor })).toEqual(second);
    },
  );

  it.each(KINDS)('lists in pages refuse a foreign cursor (%s)', async (kind) => {
    const { client } = await startWith(kind, 8);
    const { nextCursor } = await page(client, kind);
    const text = (cursor: string): string => Buffer.from(cursor).toString('base64url');
    const forged = [
      '',
      ' ',
      '3',
      'next',
      'constructor',
      text(''),
      text('3'),
      text('4:3'),
      text('4:0:-3'),
      text('4:0:'),
    ];
    const others = [text('1:3'), text('4:1:1:0'), text('4:9:1'), text('4:-1:1'), text(`4:${'9'.repeat(400)}:1`)];
    const broken = [
      text('4:0:3 '),
      text('4:0:1e3'),
      text(`4:0:${'9'.repeat(400)}`),
      `${nextCursor}${nextCursor}`,
      '💥',
    ];
    for (const cursor of [...forged, ...others, ...broken]) {
      const { code, message } = await refusal(client, kind, cursor);
      expect(`${cursor}: ${code}`).toBe(`${cursor}: -32602`);
      expect(message).toMatch(/cursor/i);
    }
    for (const cursor of [3, {}, true]) expect((await refusal(client, kind, cursor)).code).toBe(-32602);
    // One that is too far on is just the end of the list.
    expect(await page(client, kind, { cursor: text('4:0:999999999999999') })).toEqual({ names: [] });
  });

  it.each(KINDS)('neither repeat nor lose entries when others are removed between two pages (%s)', async (kind) => {
    const { client, entries, keys } = await startWith(kind, 9);
    const first = await page(client, kind);
    expect(first.names).toEqual(keys.slice(0, 3));
    // One that was seen, the very one that the cursor stands at, and one that was not.
    for (const gone of [0, 2, 4]) entries[gone]!.remove();
    const second = await page(client, kind, { cursor: first.nextCursor });
    expect(second.names).toEqual([3, 5, 6].map((n) => keys[n]));
    for (const gone of [3, 5, 6]) entries[gone]!.remove();
    expect(await page(client, kind, { cursor: second.nextCursor })).toEqual({ names: keys.slice(7) });
    // Nothing is left behind the first page, nor before it.
    for (const entry of entries) entry.remove();
    expect(await page(client, kind, { cursor: first.nextCursor })).toEqual({ names: [] });
    expect(await page(client, kind)).toEqual({ names: [] });
  });

  it.each(KINDS)('lists in pages show entries that are added between two pages at their end (%s)', async (kind) => {
    const { app, client, entries, keys } = await startWith(kind, 5);
    const first = await page(client, kind);
    entries[1]!.remove();
    // Under the name of one that went: a new one all the same.
    const again = register(registryOf(app), kind, 'n1');
    const late = register(registryOf(app), kind, 'late');
    const rest = await walk(client, kind, first.nextCursor);
    expect(rest).toEqual([[keys[3], keys[4], again.key], [late.key]]);
  });

  it.each(KINDS)('lists in pages keep the place of an entry that is updated (%s)', async (kind) => {
    const { app, client, keys } = await startWith(kind, 4);
    const registration = register(registryOf(app), kind, 'n4') as unknown as { update(changes: object): void };
    register(registryOf(app), kind, 'n5');
    const first = await page(client, kind);
    registration.update({ title: 'Changed' });
    const [second] = await walk(client, kind, first.nextCursor);
    expect([...first.names, ...second!].slice(0, 4)).toEqual(keys);
    expect(second![1]).toMatch(/^n4/);
  });

  it.each(KINDS)('lists write an entry as JSON once, until it is updated (%s)', async (kind) => {
    const { app, client } = await startWith(kind, 2);
    const registration = register(registryOf(app), kind, 'n2') as unknown as { update(changes: object): void };
    const listed = async () => {
      const { field, method } = LISTS[kind];
      const { result } = await (await client.post({ jsonrpc: '2.0', id: client.nextId(), method })).json();
      return result[field] as { name: string; title?: string }[];
    };
    const first = await listed();
    const stringify = vi.spyOn(JSON, 'stringify');
    try {
      expect(await listed()).toEqual(first);
      expect(stringify.mock.results.filter(({ value }) => /"name":"n\d"/.test(String(value)))).toEqual([]);
    } finally {
      stringify.mockRestore();
    }
    registration.update({ title: 'Changed' });
    expect((await listed()).map(({ title }) => title)).toEqual([undefined, undefined, 'Changed']);
  });

  it.each(KINDS)('lists in pages are filled with the entries that the caller may see (%s)', async (kind) => {
    const hosts = Array.from({ length: 12 }, (_, n) => {
      return fourOf(`${n % 3 === 0 ? 'anna' : 'bert'}${n}`, { onClass: [UseGuards(NameGuard)] });
    });
    const app: TestApp = await start({ providers: hosts });
    const [anna, bert] = [await app.client(as('anna')).initialize(), await app.client(as('bert')).initialize()];
    const lengths = (pages: string[][]) => pages.map(({ length }) => length).filter((length) => length > 0);
    const [forAnna, forBert] = await Promise.all([walk(anna, kind), walk(bert, kind)]);
    expect([lengths(forAnna), lengths(forBert)]).toEqual([
      [3, 1],
      [3, 3, 2],
    ]);
    expect(forAnna.flat().every((name) => name.startsWith('anna'))).toBe(true);
    expect(forBert.flat().every((name) => name.startsWith('bert'))).toBe(true);
  });

  it('lists in pages are joined by official clients', async () => {
    const { app, keys } = await startWith('tool', 10);
    const client = await connect(app);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(keys);
    expect((await client.listPrompts()).prompts).toEqual([]);
  });
});
