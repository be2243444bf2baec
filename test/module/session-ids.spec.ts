import { McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo, whoami } from '../support/app.js';
import { expectGenericFailure } from '../support/refusal.js';
import { serverSaying } from '../support/scripted-server.js';
import { sharedApp } from '../support/test-apps.js';

type Generator = NonNullable<McpStreamableOptions['sessionIdGenerator']>;

describe.each(ONE_ADAPTER)('sessionIdGenerator on %s', (adapter) => {
  let app: TestApp;
  let generator: Generator;
  const launch = sharedApp((options: Partial<McpStreamableOptions>) => {
    const server = () => serverSaying(() => 'me');
    return TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo, server, ...options })] });
  });
  const generate: Generator = (...args) => generator(...args);

  async function start(sessionIdGenerator?: Generator): Promise<void> {
    if (sessionIdGenerator) generator = sessionIdGenerator;
    app = await launch(sessionIdGenerator ? { sessionIdGenerator: generate } : {});
  }
  const initialize = () => {
    const client = app.client();
    return client.post(client.initializeMessage());
  };

  it('S1: by default ids are unguessable: 22 characters of 62, never twice', async () => {
    await start();
    const ids = await Promise.all(Array.from({ length: 50 }, async () => (await app.client().initialize()).sessionId!));
    expect(new Set(ids).size).toBe(50);
    for (const id of ids) expect(id).toMatch(/^[A-Za-z0-9]{22,}$/);
  });

  it('S1: a sessionIdGenerator makes the ids of sessions', async () => {
    let count = 0;
    const secret = 'k9!~x:Q/'.repeat(4);
    await start(() => `${secret}${++count}`);
    const one = await app.client().initialize();
    const two = await app.client().initialize();
    expect([one.sessionId, two.sessionId]).toEqual([`${secret}1`, `${secret}2`]);
    expect(await whoami(one)).toBe('me');
    expect(await whoami(two)).toBe('me');
  });

  it.each<[string, unknown]>([
    ['nothing', undefined],
    ['a number', 1234567890123456],
    ['a promise', Promise.resolve('x'.repeat(32))],
    ['an empty text', ''],
    ['a short text', 'x'.repeat(15)],
    ['a long text', 'x'.repeat(257)],
    ['a text with spaces', `${'x'.repeat(16)} y`],
    ['a text with a line break', `${'x'.repeat(16)}\r\nSet-Cookie: a=b`],
    ['a text beyond ASCII', 'é'.repeat(32)],
    ['a text with DEL', `${'x'.repeat(16)}\u007f`],
  ])(
    'S1: a sessionIdGenerator that returns %s fails for the client in general, for the log in particular',
    async (_, id) => {
      await start(() => id as string);
      const { message } = await expectGenericFailure(await initialize(), 1);
      expect(message).not.toContain('sessionIdGenerator');
      expect(app.log.texts('error')).toEqual([expect.stringContaining('"sessionIdGenerator"')]);
      expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, logs: 0 });
    },
  );

  it('S1: a sessionIdGenerator that throws fails for the client in general, for the log in particular', async () => {
    await start(() => {
      throw new Error('out of entropy');
    });
    await expectGenericFailure(await initialize(), 1);
    expect(app.log.texts('error')).toEqual(['out of entropy']);
  });

  it('S1: a sessionIdGenerator that returns an id twice fails the second time, and the first session is untouched', async () => {
    await start(() => 'always-the-same-session-id');
    const client = await app.client().initialize();
    const stream = await client.listen();
    await expectGenericFailure(await initialize(), 1);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('"sessionIdGenerator"')]);
    expect(await whoami(client)).toBe('me');
    expect(await app.service.counts()).toMatchObject({ sessions: 1, live: 1, readers: 1, logs: 1 });
    stream.destroy();
    await client.delete();
    await app.client().initialize();
  });

  it('S1: a sessionIdGenerator that returns an id twice at the same time makes one session', async () => {
    await start(() => 'always-the-same-session-id');
    const statuses = await Promise.all(Array.from({ length: 10 }, async () => (await initialize()).status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 500)).toHaveLength(9);
    expect(await app.service.counts()).toMatchObject({ sessions: 1, live: 1, logs: 1 });
  });
});
