import 'reflect-metadata';
import type { INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { type McpEra, McpSessionService, McpStreamableModule } from 'nestjs-mcp-streamable';
import {
  createMcpTestClient,
  expectNothingLeft,
  type McpTestClientOptions,
  refusalOf,
} from 'nestjs-mcp-streamable/testing';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/adapters.js';
import { gate } from '../support/app.js';
import { Doors, KitTools, StaffGuard } from './tools.js';

const ERAS: readonly McpEra[] = ['legacy', 'modern'];

describe.each(ONE_ADAPTER.flatMap((adapter) => ERAS.map((era) => ({ adapter, era }))))(
  '$adapter, $era',
  ({ adapter, era }) => {
    const apps: INestApplication[] = [];
    let shared: Promise<INestApplication> | undefined;
    /** The app of the tests that leave its doors closed. */
    const share = () => (shared ??= start());

    async function makeApp(): Promise<INestApplication> {
      const app = await start();
      apps.push(app);
      return app;
    }

    async function start(): Promise<INestApplication> {
      const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'kit', version: '1.0.0' } })];
      const testing = await Test.createTestingModule({ imports, providers: [KitTools, Doors, StaffGuard] }).compile();
      return adapter === 'express'
        ? testing.createNestApplication(new ExpressAdapter())
        : testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter());
    }
    const connect = async (app: INestApplication, options: McpTestClientOptions = {}) =>
      createMcpTestClient(app, { era, ...options });

    const expectClean = async (app: INestApplication) => {
      await expectNothingLeft(app);
      expect(app.getHttpServer().listening).toBe(false);
    };
    afterEach(async () => {
      if (shared) await expectClean(await shared);
      for (const app of apps.splice(0)) {
        await expectClean(app);
        await app.close();
      }
    });
    afterAll(async () => (await shared)?.close());

    it('the test client calls a tool of an app that listens nowhere', async () => {
      const mcp = await connect(await share());
      expect(mcp.era).toBe(era);
      expect(mcp.sessionId === undefined).toBe(era === 'modern');
      expect(await mcp.callTool('add', { a: 1, b: 2 })).toEqual({
        text: '{"sum":3}',
        content: [{ type: 'text', text: '{"sum":3}' }],
        structured: { sum: 3 },
        isError: false,
        progress: [],
        notifications: [],
      });
      expect(await mcp.callTool('fail')).toMatchObject({
        isError: true,
        text: expect.stringContaining('No more room.'),
      });
      await mcp.close();
    });

    it('the test client lists tools, reads resources and gets prompts', async () => {
      const mcp = await connect(await share());
      const names = (list: { name: string }[]) => list.map(({ name }) => name);
      expect(names(await mcp.list.tools())).toEqual(expect.arrayContaining(['add', 'ask']));
      expect(names(await mcp.list.resources())).toEqual(['terms']);
      expect(names(await mcp.list.prompts())).toEqual(['complain']);
      expect(await mcp.list.resourceTemplates()).toEqual([]);
      expect((await mcp.read('shop://terms')).text).toBe('Pay soon.');
      expect((await mcp.prompt('complain')).text).toBe('Complain!');
      await mcp.close();
    });

    it('the test client collects the progress and the log messages of a call', async () => {
      const mcp = await connect(await share(), { logLevel: 'info' });
      const { text, progress, notifications } = await mcp.callTool('count');
      expect(text).toBe('counted');
      expect(progress.map((each) => each.progress)).toEqual([1, 2, 3]);
      expect(notifications).toMatchObject([{ method: 'notifications/message', params: { data: 'counting' } }]);
      await mcp.close();
    });

    it('the test client sends headers and a token', async () => {
      const app = await share();
      const stranger = await connect(app);
      await expect(stranger.callTool('close_shop')).rejects.toThrow('Only staff');
      const staff = await connect(app, { headers: { 'x-staff': 'yes' } });
      expect((await staff.callTool('close_shop')).text).toBe('closed');
      await stranger.close();
      await staff.close();
    });

    it('the test client reports how a caller is refused, and fails when the call is not refused', async () => {
      const app = await share();
      const stranger = await connect(app);
      const refusal = await refusalOf(stranger.callTool('close_shop'));
      expect(refusal).toEqual({ status: 401, message: 'Only staff may do that.', challenge: undefined });
      await expect(refusalOf(stranger.callTool('add', { a: 1, b: 1 }))).rejects.toThrow(
        'was not refused, and returned',
      );
      await expect(refusalOf(stranger.callTool('nothing'))).rejects.toThrow('not with 401 or 403: ProtocolError');
      await expect(refusalOf(connect(app))).rejects.toThrow('The client was not refused');
      await stranger.close();
    });

    it('the test client answers the questions of a handler with what the test gave it', async () => {
      const asked: unknown[] = [];
      const mcp = await connect(await share(), {
        elicit: ({ message }) => {
          asked.push(message);
          return { action: 'accept', content: { name: 'Anna' } };
        },
        sample: () => ({ model: 'm', role: 'assistant', content: { type: 'text', text: 'Hm.' } }),
      });
      expect((await mcp.callTool('ask')).text).toBe('Hello, Anna');
      expect(asked).toEqual(['Your name?']);
      expect((await mcp.callTool('think')).text).toContain('Hm.');
      await mcp.close();
    });

    it('the test client cancels a call', async () => {
      const app = await makeApp();
      const mcp = await connect(app);
      const doors = app.get(Doors);
      const canceller = new AbortController();
      const call = mcp.callTool('wait', {}, { signal: canceller.signal });
      await doors.reached.promise;
      canceller.abort(new Error('enough'));
      await expect(call).rejects.toThrow('enough');
      await expect.poll(() => doors.cancelled).toBe(true);
      doors.opened.open();
      await mcp.close();
    });

    it('the test client sends messages as they are', async () => {
      const mcp = await connect(await share());
      const { status, headers, messages } = await mcp.raw({
        jsonrpc: '2.0',
        id: 'mine',
        method: 'tools/call',
        params: { name: 'add', arguments: { a: 1, b: 1 } },
      });
      expect([status, headers.get('content-type')]).toEqual([200, expect.stringContaining('application/json')]);
      expect(messages).toMatchObject([{ id: 'mine', result: { structuredContent: { sum: 2 } } }]);
      const refused = await mcp.raw({ jsonrpc: '1.0', id: 1, method: 'ping' });
      expect([refused.status, refused.messages[0].error.code]).toEqual([400, -32600]);
      await mcp.close();
    });

    it('the test client reaches all other routes of the app', async () => {
      const mcp = await connect(await share());
      const response = await mcp.fetch('/nowhere', {
        method: 'POST',
        body: 'x',
        headers: { 'content-type': 'text/plain' },
      });
      expect(response.status).toBe(404);
      expect(await response.json()).toMatchObject({ statusCode: 404 });
      await mcp.close();
    });

    it('the test client closes by itself where it is used with "await using"', async () => {
      const app = await share();
      const { disposed } = await (async () => {
        const mcp = await connect(app);
        await mcp.callTool('add', { a: 1, b: 2 });
        await mcp[Symbol.asyncDispose]();
        return { disposed: mcp };
      })();
      await expectNothingLeft(app);
      await expect(disposed.callTool('add')).rejects.toThrow('Not connected');
    });

    it('the test client serves many clients at once', async () => {
      const app = await share();
      const clients = await Promise.all(Array.from({ length: 10 }, () => connect(app)));
      const calls = clients.flatMap((mcp) => [1, 2, 3].map((a) => mcp.callTool('add', { a, b: 0 })));
      const sums = (await Promise.all(calls)).map(({ structured }) => (structured as { sum: number }).sum);
      expect(sums).toEqual(clients.flatMap(() => [1, 2, 3]));
      await Promise.all(clients.map((mcp) => mcp.close()));
    });

    it.runIf(era === 'legacy')('the test client resumes what it missed while its connections were cut', async () => {
      const app = await makeApp();
      const mcp = await connect(app);
      const doors = app.get(Doors);
      // A connection that is cut before the answer has begun is a call that failed.
      const told = gate();
      const call = mcp.callTool('wait', {}, { onprogress: () => told.open() });
      await told.promise;
      mcp.dropStreams();
      await expect.poll(async () => (await app.get(McpSessionService).counts()).readers).toBe(0);
      doors.opened.open();
      mcp.reconnect();
      const { text, progress } = await call;
      expect(text).toBe('through');
      expect(progress.map((each) => each.progress)).toEqual([1, 2]);
      await mcp.close();
    });

    it.runIf(era === 'modern')('the test client cancels the calls whose connections are cut', async () => {
      const app = await makeApp();
      const mcp = await connect(app);
      const doors = app.get(Doors);
      const call = mcp.callTool('wait').catch(String);
      await doors.reached.promise;
      mcp.dropStreams();
      expect(await call).toMatch(/hang up|closed|terminated/i);
      await expect.poll(() => doors.cancelled).toBe(true);
      doors.opened.open();
      await mcp.close();
    });
  },
);

it('createMcpTestClient() throws an error that names createNestApplication() when it is given something else than an app', async () => {
  const module = await Test.createTestingModule({}).compile();
  for (const given of [module, undefined]) {
    await expect(createMcpTestClient(given as never)).rejects.toThrow('createNestApplication()');
  }
});
