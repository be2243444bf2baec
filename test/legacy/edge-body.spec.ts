import { Body, Controller, type INestApplication, Post } from '@nestjs/common';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp, type TestAppOptions } from '../support/app.js';
import { send } from '../support/http.js';
import { expectRefusal } from '../support/refusal.js';
import { cut, EndlessPost, postInChunks } from '../support/raw-socket.js';

/** One to four bytes a character, and a pair of surrogates with a variation selector. */
const TEXT = 'a é ẞ € 漢字 🏳️‍🌈 𝄞 \u2028 "\\" end';

/** What a test uses of Fastify. */
interface ParsedBy {
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    options: { parseAs: 'string' },
    parser: (
      request: { headers: Record<string, string> },
      body: string,
      done: (error: null, body: unknown) => void,
    ) => void,
  ): void;
}

@Controller('other')
class OtherController {
  @Post()
  length(@Body() body: { text: string }): number {
    return body.text.length;
  }
}

describe.each(ADAPTERS)('the body of a POST on %s', (adapter) => {
  let app: TestApp;
  let called: string[];

  async function start(options: Partial<TestAppOptions> = {}): Promise<void> {
    called = [];
    app = await TestApp.start({
      adapter,
      port: true,
      module: { controllers: [OtherController] },
      tools: {
        echo: ({ text }) => {
          called.push(text as string);
          return text as string;
        },
      },
      ...options,
    });
  }
  afterEach(() => app.close());

  const other = (text: string) => {
    const url = `${new URL(app.url).origin}/other`;
    return send(url, { headers: { 'content-type': 'application/json' }, body: { text } });
  };

  it('E4: no media type hides the body of another route from the parsers of the app', async () => {
    await start();
    await (await app.client().initialize()).delete();
    for (const type of ['application/vnd.nestjs-mcp-streamable', 'application/vnd.nestjs-mcp-streamable.0']) {
      const response = await send(`${new URL(app.url).origin}/other`, {
        headers: { 'content-type': type },
        body: { text: 'x' },
      });
      // Express hands on the request without a body, as for every type that it does not know.
      expect(response.status).toBe(adapter === 'fastify' ? 415 : 500);
      await response.text();
    }
  });

  it.runIf(adapter === 'fastify')(
    'E4: a parser of the app for all media types gets the bodies of other routes alone, with their headers',
    async () => {
      const parsed: unknown[] = [];
      const configure = (nest: INestApplication): void => {
        const fastify = nest.getHttpAdapter().getInstance() as ParsedBy;
        fastify.removeAllContentTypeParsers();
        fastify.addContentTypeParser('*', { parseAs: 'string' }, ({ headers }, body, done) => {
          parsed.push([headers['content-type'], headers['content-length']]);
          done(null, JSON.parse(body));
        });
      };
      await start({ configure });
      const client = await app.client().initialize();
      const bytes = Buffer.from(JSON.stringify(client.toolCall('echo', { text: 'chunked' })));
      const answers = [await client.call('echo', { text: 'whole' }), await postInChunks(client, cut(bytes, 20))];
      expect([answers.map(({ status }) => status), called]).toEqual([
        [200, 200],
        ['whole', 'chunked'],
      ]);
      const ofOtherType = { 'content-type': 'application/other' };
      await expectRefusal(await client.post(client.toolCall('echo'), ofOtherType), { status: 415, code: -32000 });
      expect(parsed).toEqual([]);
      const response = await send(`${new URL(app.url).origin}/other`, { headers: ofOtherType, body: { text: 'x' } });
      expect(await response.text()).toBe('1');
      expect(parsed).toEqual([['application/other', '12']]);
    },
  );

  describe('its size', () => {
    it('E6: the size of a body may be more than the app takes elsewhere, and the app keeps its own limit', async () => {
      await start();
      const client = await app.client().initialize();
      const text = 'x'.repeat(2 * 1024 ** 2);
      const served = await (await client.call('echo', { text })).json();
      expect(served.result.content[0].text).toHaveLength(text.length);
      const refused = await other(text);
      expect(refused.status).toBe(413);
      expect(await refused.text()).not.toContain('jsonrpc');
      expect((await other('x')).status).toBe(201);
    });

    it('E6: the size of a body may be less than the app takes elsewhere, and the app keeps its own limit', async () => {
      await start({ maxBodyBytes: 1_000 });
      const client = await app.client().initialize();
      const text = 'x'.repeat(1_000);
      const refusal = { status: 413, code: -32000, says: ['1000 bytes', '"maxBodyBytes"'] };
      await expectRefusal(await client.call('echo', { text }), refusal);
      expect((await other(text)).status).toBe(201);
      expect(called).toEqual([]);
      await app.settled({ sessions: 1, inFlight: 0 });
    });

    it('E16: a body of many values is refused with the id of its request, and one long text is not', async () => {
      await start({ maxBodyValues: 2_000 });
      const client = await app.client().initialize();
      const list = Array.from({ length: 2_000 }, () => 1);
      const refused = await client.post(client.toolCall('echo', { list }, { id: 'many' }));
      await expectRefusal(refused, { status: 413, code: -32000, id: 'many', says: ['2000 values', '"maxBodyValues"'] });
      // A batch has no id.
      const batch = await client.post([client.toolCall('echo', { list })]);
      await expectRefusal(batch, { status: 413, code: -32000, id: null });
      expect(called).toEqual([]);
      const text = '[1,1],{'.repeat(2_000);
      expect((await (await client.call('echo', { text })).json()).result.content[0].text).toBe(text);
      await app.settled({ sessions: 1, inFlight: 0 });
    });

    it('E6: the size of a body is measured in bytes, and may be exactly the limit', async () => {
      await start({ maxBodyBytes: 1_000 });
      const client = await app.client().initialize();
      const call = client.toolCall('echo', { text: '' });
      const size = Buffer.byteLength(JSON.stringify(call));
      const padded = (bytes: number): string => {
        const text = '€'.repeat(Math.floor((bytes - size) / 3)) + 'x'.repeat((bytes - size) % 3);
        return JSON.stringify(client.toolCall('echo', { text }, { id: call.id }));
      };
      expect((await client.post(padded(1_000))).status).toBe(200);
      await expectRefusal(await client.post(padded(1_001)), { status: 413, code: -32000 });
    });

    it('E6: the size of a body is counted while reading when there is no Content-Length', async () => {
      await start({ maxBodyBytes: 10_000 });
      const client = await app.client().initialize();
      const text = 'x'.repeat(9_000);
      const bytes = (padding: string): Buffer =>
        Buffer.from(JSON.stringify(client.toolCall('echo', { text: text + padding })));
      expect((await postInChunks(client, cut(bytes(''), 100))).status).toBe(200);
      const refused = await postInChunks(client, cut(bytes('x'.repeat(1_000)), 100));
      await expectRefusal(refused, { status: 413, code: -32000 });
      expect(called).toHaveLength(1);
    });

    it('E6: a body without an end is refused, and its connection closed', async () => {
      const clock = new ManualClock();
      await start({ clock, maxBodyBytes: 100_000 });
      const client = await app.client().initialize();
      const post = new EndlessPost(client, Buffer.alloc(64 * 1024, ' '));
      await expectRefusal(await post.response, { status: 413, code: -32000 });
      // What comes behind the answer is thrown away for two seconds.
      await clock.advance(2_000);
      await post.closed;
      // What it had sent was thrown away within bounds.
      expect(post.bytes).toBeLessThan(64 * 1024 ** 2);
      await app.settled({ sessions: 1, inFlight: 0, timers: 0 });
    });

    it('E6: the size of a body of 64 MiB is refused by the Content-Length', async () => {
      await start();
      const client = await app.client().initialize();
      const headers = { ...client.usualHeaders, 'content-length': String(64 * 1024 ** 2) };
      const response = await send(app.url, { headers, keepOpen: true });
      await expectRefusal(response, { status: 413, code: -32000, says: ['4194304'] });
      response.destroy();
    });

    it('E6: a body that is too slow is refused after bodyTimeoutMs', async () => {
      const clock = new ManualClock();
      await start({ clock, bodyTimeoutMs: 7_000, idleTimeoutMs: Infinity });
      const client = await app.client().initialize();
      const timers = clock.pending;
      const pending = send(app.url, {
        headers: { ...client.usualHeaders, 'transfer-encoding': 'chunked' },
        keepOpen: true,
      });
      await expect.poll(() => clock.pending).toBe(timers + 1);
      await clock.advance(7_000);
      const response = await pending;
      await expectRefusal(response, { status: 408, code: -32000, says: ['7000 ms', '"bodyTimeoutMs"'] });
      response.destroy();
    });

    it('E6: a body with a Content-Encoding, which could hide its size, is refused', async () => {
      await start();
      const client = app.client();
      const response = await client.post(client.initializeMessage(), { 'content-encoding': 'gzip' });
      await expectRefusal(response, { status: 415, code: -32000, says: ['"gzip"'] });
      await app.settled({ sessions: 0 });
    });
  });

  describe('its characters', () => {
    beforeEach(() => start());

    it('E11: the characters of a body are decoded whole when two chunks cut them anywhere', async () => {
      const client = await app.client().initialize();
      const message = (): Buffer => Buffer.from(JSON.stringify(client.toolCall('echo', { text: TEXT })));
      const { length } = message();
      const texts = await Promise.all(
        Array.from({ length: length - 1 }, async (_, at) => {
          const bytes = message();
          const chunks = [bytes.subarray(0, at + 1), bytes.subarray(at + 1)];
          return (await (await postInChunks(client, chunks)).json()).result.content[0].text as string;
        }),
      );
      expect(new Set(texts)).toEqual(new Set([TEXT]));
    });

    it('E11: the characters of a body are decoded whole when they are sent byte by byte', async () => {
      const client = await app.client().initialize();
      const bytes = Buffer.from(JSON.stringify(client.toolCall('echo', { text: TEXT })));
      const response = await postInChunks(client, cut(bytes, 1));
      expect((await response.json()).result.content[0].text).toBe(TEXT);
    });

    it('E11: the characters of a body may begin with a byte order mark, which is skipped', async () => {
      const client = await app.client().initialize();
      const response = await client.post(`\ufeff${JSON.stringify(client.toolCall('echo', { text: 'é' }))}`);
      expect((await response.json()).result.content[0].text).toBe('é');
    });

    it('E7: the characters of a body are refused when they are not UTF-8', async () => {
      const client = await app.client().initialize();
      const bytes = Buffer.from(JSON.stringify(client.toolCall('echo', { text: 'é' })), 'latin1');
      await expectRefusal(await client.post(bytes), { status: 400, code: -32700, says: ['UTF-8'] });
      expect(called).toEqual([]);
    });
  });
});
