import { type INestApplication, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { createMcpTestClient, expectNothingLeft, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Announcer } from '../../examples/snippets/announcer.js';
import { AppModule as CloudRunApp } from '../../examples/snippets/cloud-run.js';
import { LocalisedTools, Profiles } from '../../examples/snippets/localised-tools.js';
import { Summaries, Writer } from '../../examples/snippets/partial-text.js';
import { FormerNames, OrderStatus } from '../../examples/snippets/renamed-tools.js';
import { Bucket, Documents } from '../../examples/snippets/upload-links.js';
import { serverInfo } from '../support/app.js';

const uploaded = new Map<string, Uint8Array>();
const bucket: Bucket = {
  signedPut: (key) => Promise.resolve(`https://bucket.example.com/${encodeURIComponent(key)}?signature=s`),
  read: (key) => Promise.resolve(uploaded.get(key)),
};
/** What a program does that got the link. */
const put = (url: string, text: string): unknown =>
  uploaded.set(decodeURIComponent(new URL(url).pathname.slice(1)), Buffer.from(text));

const writer: Writer = {
  async *write() {
    yield* ['Sales ', 'grew.'];
  },
};
const profiles: Profiles = { languageOf: (user) => Promise.resolve(user === 'jan' ? 'de' : 'en') };

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo,
      principal: (request: { headers: Record<string, string> }) => request.headers['x-user'],
    }),
  ],
  providers: [
    Announcer,
    Documents,
    FormerNames,
    LocalisedTools,
    OrderStatus,
    Summaries,
    { provide: Bucket, useValue: bucket },
    { provide: Profiles, useValue: profiles },
    { provide: Writer, useValue: writer },
  ],
})
class QuestionsApp {}

async function appOf(module: typeof QuestionsApp): Promise<INestApplication> {
  const testing = await Test.createTestingModule({ imports: [module] }).compile();
  return testing.createNestApplication({ logger: false });
}

describe.each(['legacy', 'modern'] as const)('the answers of docs/how-do-i.md, in the %s era', (era) => {
  let app: INestApplication;
  const clients: McpTestClient[] = [];

  beforeAll(async () => {
    app = await appOf(QuestionsApp);
  });

  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
    await expectNothingLeft(app);
  });

  afterAll(() => app.close());

  async function connect(user: string): Promise<McpTestClient> {
    const client = await createMcpTestClient(app, { era, headers: { 'x-user': user }, logLevel: 'info' });
    clients.push(client);
    return client;
  }

  it('a tool that was renamed is called by its former name, which no list shows', async () => {
    const mcp = await connect('ann');
    const names = (await mcp.list.tools()).map(({ name }) => name);
    expect(names).toContain('track_order');
    expect(names).not.toContain('order_status');
    for (const name of ['track_order', 'order_status'])
      expect((await mcp.callTool(name, { id: '7' })).text).toBe('Order 7 is on its way.');
  });

  it('a tool reads what its caller has put to a link, and no other caller reads it', async () => {
    const [ann, bob] = [await connect('ann'), await connect('bob')];
    const { file, url } = (await ann.callTool('upload_link')).structured as { file: string; url: string };
    expect((await ann.callTool('count_words', { file })).text).toBe('PUT the document to its link first.');
    put(url, 'three short words');
    expect((await ann.callTool('count_words', { file })).text).toBe('3');
    expect((await bob.callTool('count_words', { file })).isError).toBe(true);
    expect((await ann.callTool('count_words', { file: '../bob/secret' })).text).toContain('not valid');
  });

  it('parts of a text are messages of the progress, and the result has the whole text', async () => {
    const { progress, text } = await (await connect('ann')).callTool('summarise');
    expect(progress.map(({ message }) => message)).toEqual(['Sales ', 'grew.']);
    expect(text).toBe('Sales grew.');
  });

  it('a list and a result have the language of their caller', async () => {
    const [ann, jan] = [await connect('ann'), await connect('jan')];
    const titles = await Promise.all(
      [ann, jan].map(async ({ list }) => (await list.tools()).find(({ name }) => name === 'opening_hours')?.title),
    );
    expect(titles).toEqual(['Opening hours', 'Öffnungszeiten']);
    expect((await ann.callTool('opening_hours')).text).toBe('9 to 5');
    expect((await jan.callTool('opening_hours')).text).toBe('9 bis 17 Uhr');
  });

  it('a message reaches the sessions of one user, or all sessions, and no client without a session', async () => {
    const tabs = [await connect('ann'), await connect('ann')];
    await connect('bob');
    const announcer = app.get(Announcer);
    const sessions = era === 'legacy' ? [2, 3] : [0, 0];
    expect([await announcer.tell('ann', 'Soon.'), await announcer.announce('Now.')]).toEqual(sessions);
    const ids = new Set(tabs.map(({ client }) => (client.transport as { sessionId?: string }).sessionId));
    expect(ids.size).toBe(era === 'legacy' ? 2 : 1);
  });
});

it('the app for Cloud Run serves the host of its service alone, without sessions', async () => {
  const app = await appOf(CloudRunApp);
  const mcp = await createMcpTestClient(app, { era: 'legacy' });
  expect((mcp.client.transport as { sessionId?: string }).sessionId).toBeUndefined();
  expect((await mcp.callTool('show_order', { id: '7' })).structured).toMatchObject({ item: 'lamp' });
  const statusOf = async (host: string): Promise<number> =>
    (await mcp.fetch('/mcp', { method: 'POST', headers: { host } })).status;
  expect(await statusOf('orders-123456789.europe-west1.run.app')).not.toBe(403);
  expect(await statusOf('other.run.app')).toBe(403);
  await mcp.close();
  await app.close();
});
