import { Injectable } from '@nestjs/common';
import {
  currentMcpCall,
  type McpHandlerFunction,
  type McpCallEnd,
  McpSessionGuard,
  type McpServerRequestError,
} from 'nestjs-mcp-streamable';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { beforeEach, describe, expect, it } from 'vitest';
import { EVERYTHING, FORM, SAMPLE } from '../methods/callers.js';
import { ONE_ADAPTER, gate, type TestApp, type TestAppOptions } from '../support/app.js';
import { eventually, recordedEvents, registryOf, testApps } from '../support/test-apps.js';
import { send, type RawResponse } from '../support/http.js';
import { cancelOf, gists } from '../support/messages.js';
import { ModernClient } from '../support/modern-client.js';
import { LATEST, type RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { as } from '../support/users.js';
import { SERVED } from './sessions-off.tools.js';
import { ForsakenPost } from '../support/raw-socket.js';

const REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26'];
const WITH_BATCHES = '2025-03-26';
const NOTHING = { inFlight: 0, openResponses: 0, timers: 0, sessions: 0, live: 0, streams: 0, logs: 0, events: 0 };
const METHOD_NOT_FOUND = -32601;
const REQUEST_FAILED = -32000;
const REQUEST_TIMEOUT = -32001;

/** Ours, and two of the SDK. */
const UNASKED =
  /has no sessions .* could not reach this request|does not support form elicitation|cannot receive server-to-client requests/;

const versioned = (version: string) => ({ 'mcp-protocol-version': version });
const askedBy = (client: RawClient, method: string, params: object = {}) => ({
  jsonrpc: '2.0',
  id: client.nextId(),
  method,
  params,
});
/** The only answer, as JSON. */
const answerOf = async (response: RawResponse) => {
  const text = await response.text();
  expect(`${response.status} ${text}`).toMatch(/^200 /);
  return JSON.parse(text);
};

describe.each(ONE_ADAPTER)('S17: sessions "off" on %s', (adapter) => {
  const begin = testApps(adapter, { sessions: 'off', shared: true });
  const clock = new ManualClock();

  describe.each(SERVED)('with %s', (_, make) => {
    const { stage, options: served } = make();
    beforeEach(() => stage.reset());
    const start = (options: Partial<TestAppOptions> = {}): Promise<TestApp> => begin({ ...served, ...options });
    const waiting = (client: RawClient, name: string, options = {}) => client.toolCall('waits', { name }, options);

    describe('initialize', () => {
      it.each(REVISIONS)('initialize is answered as JSON without a session id, in revision %s', async (revision) => {
        const app = await start({ responseMode: 'sse' });
        const client = app.client();
        const response = await client.post(client.initializeMessage(revision, { sampling: {} }));
        expect(response.header('mcp-session-id')).toBeUndefined();
        expect(response.header('content-type')).toMatch(/^application\/json\b/);
        const { id, result } = await answerOf(response);
        expect([id, result.protocolVersion]).toEqual([1, revision]);
        expect(result.serverInfo.version).toBe('1.0.0');
        await app.settled(NOTHING);
      });

      it.each(['2024-11-05', '2026-07-28', 'tomorrow'])(
        'initialize that asks for %s is answered with the newest revision',
        async (revision) => {
          const app = await start();
          const client = app.client();
          const { result } = await answerOf(await client.post(client.initializeMessage(revision)));
          expect(result.protocolVersion).toBe('2025-11-25');
        },
      );

      it('initialize declares neither changes, nor subscriptions, nor logging', async () => {
        const app = await start();
        const client = app.client();
        const { result } = await answerOf(await client.post(client.initializeMessage()));
        const { capabilities } = result;
        expect(capabilities).toMatchObject({ tools: {}, resources: {}, completions: {} });
        expect(capabilities.logging).toBeUndefined();
        expect(JSON.stringify(capabilities)).not.toMatch(/listChanged|subscribe/);
      });

      it('initialize is served as often as it is sent, with any session id in the header', async () => {
        const app = await start();
        const client = app.client();
        for (const version of ['2025-06-18', '1999-01-01']) {
          await answerOf(await client.post(client.initializeMessage(), versioned(version)));
        }
      });

      it('initialize is refused when its parameters are malformed', async () => {
        const app = await start();
        const client = app.client();
        const refused = { status: 400, code: -32602, says: ['protocolVersion'] };
        const response = await client.post(askedBy(client, 'initialize', { capabilities: {} }));
        await expectRefusal(response, { ...refused, id: 1 });
        await app.settled(NOTHING);
      });
    });

    describe('a request', () => {
      it('a request is served without an initialize and without a session id', async () => {
        const app = await start();
        const client = app.client(as('anna'));
        for (const method of ['ping', 'tools/list', 'resources/list', 'prompts/list']) {
          const response = await client.post(askedBy(client, method));
          expect(response.header('mcp-session-id')).toBeUndefined();
          const { error } = await response.json();
          // The server of the app has no prompts.
          expect(error === undefined || method === 'prompts/list').toBe(true);
        }
        const read = askedBy(client, 'resources/read', { uri: 'app://notes' });
        expect((await answerOf(await client.post(read))).result.contents[0].text).toBe('the notes');
        expect(gists([await answerOf(await client.call('who'))])).toEqual(['[null,"anna"]']);
      });

      it('a request is answered with the error of its handler', async () => {
        const app = await start({ errorDetails: true });
        const client = app.client();
        expect((await answerOf(await client.call('fails'))).result).toMatchObject({
          isError: true,
          content: [{ text: 'broken' }],
        });
        const unknown = await client.post(askedBy(client, 'no/such'));
        expect((await answerOf(unknown)).error.code).toBe(METHOD_NOT_FOUND);
      });

      it.each(REVISIONS)('a request may name revision %s', async (revision) => {
        const app = await start();
        const client = app.client(versioned(revision));
        expect(gists([await answerOf(await client.call('echo', { name: 'hi' }))])).toEqual(['hi']);
      });

      it.each(['2024-11-05', '1999-01-01', 'x'])(
        'a request of revision "%s" is refused with those there are',
        async (version) => {
          const app = await start();
          const client = app.client(versioned(version));
          const refused = { status: 400, code: -32000, says: [`"${version}"`, ...REVISIONS] };
          const { data } = await expectRefusal(await client.call('echo', {}, { id: 4 }), { ...refused, id: 4 });
          expect(data).toEqual({ supported: REVISIONS, requested: version });
          await expectRefusal(await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' }), refused);
          await app.settled(NOTHING);
        },
      );

      it('E10: a request with Last-Event-ID is refused', async () => {
        const app = await start();
        const response = await app.client({ 'last-event-id': '0_1' }).call('echo', {}, { id: 'a' });
        await expectRefusal(response, { status: 400, code: -32000, id: 'a', says: ['Last-Event-ID'] });
      });
    });

    describe('a session id', () => {
      it.each(['unknown-but-well-formed-0001', 'constructor', '__proto__', 'ü'])('"%s" is ignored', async (id) => {
        const app = await start();
        const client = app.client({ 'mcp-session-id': id });
        const initialized = await client.post(client.initializeMessage());
        expect(initialized.header('mcp-session-id')).toBeUndefined();
        await answerOf(initialized);
        await client.notify('notifications/initialized');
        expect(gists([await answerOf(await client.call('echo', { name: 'hi' }))])).toEqual(['hi']);
        await app.settled(NOTHING);
      });
    });

    describe('notifications and responses', () => {
      it('alone are accepted with 202', async () => {
        const app = await start();
        const events = recordedEvents(app);
        const client = app.client();
        await client.notify('notifications/initialized');
        await client.notify('notifications/roots/list_changed');
        await client.respond('never asked', {});
        const batch = await client.post([{ jsonrpc: '2.0', method: 'notifications/initialized' }]);
        expect([batch.status, await batch.text()]).toEqual([202, '']);
        expect(events).toEqual([]);
        await app.settled(NOTHING);
      });

      it('notifications and responses that cancel an id do not cancel the call of another client with that id', async () => {
        const app = await start();
        const [anna, bert] = [app.client(as('anna')), app.client(as('bert'))];
        const call = anna.post(waiting(anna, 'annas', { id: 1 }));
        const signal = await stage.entered('annas');
        for (const client of [bert, anna]) {
          const response = await client.post(cancelOf(1, 'enough'));
          expect([response.status, await response.text()]).toEqual([202, '']);
        }
        await app.settled({ inFlight: 1 });
        expect(signal.aborted).toBe(false);
        stage.release('annas', 'for Anna');
        expect(gists([await answerOf(await call)])).toEqual(['for Anna']);
      });
    });

    describe('batches', () => {
      it.each([
        ['without the header', {}],
        ['with that of 2025-03-26', versioned(WITH_BATCHES)],
      ])('batches are served %s', async (__, headers) => {
        const app = await start();
        const client = app.client(headers);
        const batch = [
          client.toolCall('echo', { name: 'one' }, { id: 'a' }),
          { jsonrpc: '2.0', method: 'notifications/initialized' },
          client.toolCall('echo', { name: 'two' }, { id: 'b' }),
          askedBy(client, 'logging/setLevel', { level: 'info' }),
        ];
        const answers = await answerOf(await client.post(batch));
        const byId = new Map(answers.map((answer: { id: unknown }) => [answer.id, answer]));
        expect(gists(['a', 'b', 1].map((id) => byId.get(id)))).toEqual(['one', 'two', `error ${METHOD_NOT_FOUND}`]);
        await app.settled(NOTHING);
      });

      it('batches become a stream with the first other message', async () => {
        const app = await start();
        const client = app.client();
        const batch = [client.toolCall('steps', {}, { id: 'a', progressToken: 'p' }), client.toolCall('echo')];
        const stream = (await client.post(batch)).sse();
        expect(await stream.end()).toBe('end');
        const said = gists(stream.messages);
        expect(said).toHaveLength(4);
        expect(said).toEqual(expect.arrayContaining(['progress 1', 'progress 2', 'stepped', 'undefined']));
        expect(stream.body).not.toMatch(/^(id|retry):/m);
      });

      it.each(['2025-06-18', '2025-11-25'])('batches are refused with the header %s', async (version) => {
        const app = await start();
        const client = app.client(versioned(version));
        const response = await client.post([client.toolCall('echo')]);
        await expectRefusal(response, { status: 400, code: -32600, says: [version] });
        await app.settled(NOTHING);
      });

      it('batches are refused whole: with an initialize, with an id twice, of more than 100', async () => {
        const app = await start();
        const client = app.client();
        const echo = () => client.toolCall('echo');
        const refused = { status: 400, code: -32600 };
        await expectRefusal(await client.post([client.initializeMessage(), echo()]), refused);
        const twice = [client.toolCall('waits', { name: 'x' }, { id: 7 }), client.toolCall('echo', {}, { id: 7 })];
        await expectRefusal(await client.post(twice), { ...refused, id: 7, says: ['7'] });
        await expectRefusal(await client.post(Array.from({ length: 101 }, echo)), { ...refused, says: ['101', '100'] });
        await app.settled(NOTHING);
      });
    });

    describe('streams', () => {
      it('streams carry progress, without event ids and without a priming event', async () => {
        const app = await start();
        const client = app.client(versioned('2025-11-25'));
        const response = await client.call('steps', {}, { id: 'a', progressToken: 'p' });
        expect(response.header('content-type')).toMatch(/^text\/event-stream\b/);
        expect(response.header('mcp-session-id')).toBeUndefined();
        const stream = response.sse();
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages)).toEqual(['progress 1', 'progress 2', 'stepped']);
        expect(stream.messages.map(({ params }) => params?.progressToken)).toEqual(['p', 'p', undefined]);
        expect(stream.body).not.toMatch(/^(id|retry):/m);
        await app.settled(NOTHING);
      });

      it('streams begin after sseAfterMs, and are kept open by comments', async () => {
        const app = await start({ clock, sseAfterMs: 500, keepAliveMs: 10_000 });
        const client = app.client();
        const posted = client.post(waiting(client, 'slow'));
        await stage.entered('slow');
        await clock.advance(500);
        const stream = (await posted).sse();
        await clock.advance(10_000);
        await stream.until(({ comments }) => comments.length > 0);
        stage.release('slow', 'at last');
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages)).toEqual(['at last']);
        expect(stream.body).not.toMatch(/^(id|retry):/m);
        await app.settled(NOTHING);
      });

      it('streams carry even a single answer in responseMode "sse"', async () => {
        const app = await start({ responseMode: 'sse' });
        const stream = (await app.client().call('echo', { name: 'hi' })).sse();
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages)).toEqual(['hi']);
      });

      it('streams are never used in responseMode "json", whose response is the answer alone', async () => {
        const app = await start({ responseMode: 'json' });
        const response = await app.client().call('steps', {}, { progressToken: 'p' });
        expect(gists([await answerOf(response)])).toEqual(['stepped']);
      });

      it('streams carry neither log messages nor notifications of changes', async () => {
        const app = await start();
        const events = recordedEvents(app);
        expect(gists([await answerOf(await app.client().call('talks'))])).toEqual(['talked']);
        expect(events).toEqual([]);
      });
    });

    describe('a client that leaves', () => {
      it('a client that leaves before the head has its call cancelled', async () => {
        const app = await start();
        const client = app.client();
        const posted = new ForsakenPost(client, waiting(client, 'a'));
        const signal = await stage.entered('a');
        await app.settled({ inFlight: 1 });
        await posted.hangUp();
        await eventually(() => expect(stage.left).toEqual(['a']));
        expect(signal.aborted).toBe(true);
        await app.settled(NOTHING);
      });

      it('a client that leaves in the middle of a stream has its call cancelled', async () => {
        const app = await start();
        const client = app.client();
        const stream = await (await client.post(waiting(client, 'a', { progressToken: 1 }))).sse().count(1);
        await app.settled({ inFlight: 1, openResponses: 1 });
        stream.destroy();
        await eventually(() => expect(stage.left).toEqual(['a']));
        await app.settled(NOTHING);
      });

      it('a client that leaves with a batch has all calls of the batch cancelled, and no others', async () => {
        const app = await start();
        const [client, other] = [app.client(), app.client()];
        const posted = new ForsakenPost(client, [waiting(client, 'a'), waiting(client, 'b')]);
        const call = other.post(waiting(other, 'c'));
        await Promise.all(['a', 'b', 'c'].map((name) => stage.entered(name)));
        await posted.hangUp();
        await eventually(() => expect(stage.left.toSorted()).toEqual(['a', 'b']));
        stage.release('c', 'unharmed');
        expect(gists([await answerOf(await call)])).toEqual(['unharmed']);
        await app.settled(NOTHING);
      });
    });

    it('two clients with one id at the same time get an answer each, and the right one', async () => {
      const app = await start();
      const [anna, bert] = [app.client(as('anna')), app.client(as('bert'))];
      const calls = [anna.post(waiting(anna, 'annas', { id: 1 })), bert.post(waiting(bert, 'berts', { id: 1 }))];
      await Promise.all([stage.entered('annas'), stage.entered('berts')]);
      await app.settled({ inFlight: 2 });
      stage.release('berts', 'for Bert');
      stage.release('annas', 'for Anna');
      const answers = await Promise.all(calls.map(async (call) => answerOf(await call)));
      expect(answers.map(({ id }) => id)).toEqual([1, 1]);
      expect(gists(answers)).toEqual(['for Anna', 'for Bert']);
    });

    it('a call that takes longer than requestTimeoutMs is answered with an error, and cancelled', async () => {
      const app = await start({ clock, requestTimeoutMs: 1_000 });
      const client = app.client();
      const posted = client.post(waiting(client, 'slow', { id: 'a' }));
      await stage.entered('slow');
      await clock.advance(1_000);
      expect(await answerOf(await posted)).toMatchObject({ id: 'a', error: { code: REQUEST_TIMEOUT } });
      expect(stage.left).toEqual(['slow']);
      await app.settled(NOTHING);
    });

    describe('what needs a session', () => {
      it.each([
        ['logging/setLevel', { level: 'debug' }],
        ['resources/subscribe', { uri: 'app://notes' }],
        ['resources/unsubscribe', { uri: 'app://notes' }],
      ])('%s is refused as an unknown method', async (method, params) => {
        const app = await start();
        const client = app.client();
        const { error } = await answerOf(await client.post(askedBy(client, method, params)));
        expect(error).toEqual({ code: METHOD_NOT_FOUND, message: 'Method not found' });
        await app.settled(NOTHING);
      });

      it.each(['GET', 'DELETE', 'HEAD', 'PUT', 'PATCH'])('%s is refused', async (method) => {
        const app = await start();
        for (const headers of [{}, { 'mcp-session-id': 'unknown-but-well-formed-0001' } as Record<string, string>]) {
          const response = await send(app.url, { method, headers: app.client(headers).usualHeaders });
          expect([response.status, response.header('allow')]).toEqual([405, 'POST']);
          if (method === 'HEAD') await response.text();
          else await expectRefusal(response, { status: 405, code: -32000, says: [method, 'POST'] });
        }
        await app.settled(NOTHING);
      });

      it('the caps of sessions refuse no request', async () => {
        const app = await start({ maxSessions: 1, maxSessionsPerPrincipal: 1, maxAnonymousSessions: 1 });
        for (const headers of [{}, {}, as('anna'), as('anna')]) {
          const client = app.client(headers);
          await answerOf(await client.post(client.initializeMessage()));
        }
        await app.settled(NOTHING);
      });

      it('the session guard is not asked', async () => {
        const asked: unknown[] = [];
        @Injectable()
        class SuspiciousGuard extends McpSessionGuard {
          protected override canAccess(...args: unknown[]): boolean {
            asked.push(args);
            return false;
          }
        }
        const app = await start({ sessionGuard: SuspiciousGuard });
        const client = app.client({ 'mcp-session-id': 'unknown-but-well-formed-0001' });
        await answerOf(await client.post(client.initializeMessage()));
        await answerOf(await client.call('echo', { name: 'hi' }));
        expect(asked).toEqual([]);
      });
    });

    describe('questions', () => {
      it.each(['elicits', 'samples', 'roots', 'returns'])(
        'questions fail the tool that asks (%s) with the reason',
        async (name) => {
          const app = await start();
          const client = app.client();
          await answerOf(await client.post(client.initializeMessage(LATEST, EVERYTHING)));
          const { result } = await answerOf(await client.call(name));
          expect(result).toMatchObject({ isError: true, content: [{ text: expect.stringMatching(UNASKED) }] });
          await app.settled(NOTHING);
        },
      );
    });

    describe('revision 2026-07-28 on the same endpoint', () => {
      it('revision 2026-07-28 on the same endpoint is served as with sessions', async () => {
        const app = await start();
        const client = new ModernClient(app.url, as('anna'));
        const { result } = await client.ask('server/discover');
        expect(result.capabilities.tools).toEqual({ listChanged: true });
        expect(gists([await client.ask('tools/call', { name: 'echo', arguments: { name: 'hi' } })])).toEqual(['hi']);
        const stream = (await client.call('steps', {}, { progressToken: 1 })).sse();
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages)).toEqual(['progress 1', 'progress 2', 'stepped']);
        const gone = await client.request('logging/setLevel', { level: 'info' });
        await expectRefusal(gone, { status: 404, code: METHOD_NOT_FOUND, id: 4 });
      });

      it('revision 2026-07-28 on the same endpoint has subscriptions that are notified of changes', async () => {
        const app = await start();
        const listening = await new ModernClient(app.url).listen({ resourceSubscriptions: ['app://notes'] });
        await app.settled({ subscriptions: 1 });
        expect(await app.service.resourceUpdated('app://notes')).toBe(0);
        await listening.count(2);
        expect(listening.messages[1]).toMatchObject({ method: 'notifications/resources/updated' });
        listening.destroy();
        await app.settled({ subscriptions: 0 });
      });
    });

    describe('shutdown', () => {
      it('shutdown answers a call without a head with 503, one with a stream with an error, and cancels both', async () => {
        const app = await start({ drainMs: 0 });
        const client = app.client();
        const posted = client.post(waiting(client, 'a', { id: 'a' }));
        const stream = await (await client.post(waiting(client, 'b', { id: 'b', progressToken: 1 }))).sse().count(1);
        await stage.entered('a');
        await app.shutDown();
        const response = await posted;
        expect(response.header('retry-after')).toMatch(/^\d+$/);
        await expectRefusal(response, { status: 503, code: REQUEST_FAILED, id: 'a' });
        expect(await stream.end()).toBe('end');
        expect(stream.messages.at(-1)).toMatchObject({ id: 'b', error: { code: REQUEST_FAILED } });
        expect(stage.left.toSorted()).toEqual(['a', 'b']);
        await app.settled(NOTHING);
      });

      it('shutdown answers each call of a batch', async () => {
        const app = await start({ drainMs: 0 });
        const client = app.client();
        const posted = client.post([waiting(client, 'a', { id: 'a' }), waiting(client, 'b', { id: 'b' })]);
        await Promise.all([stage.entered('a'), stage.entered('b')]);
        await app.shutDown();
        const answers = await answerOf(await posted);
        expect(answers).toMatchObject(['a', 'b'].map((id) => ({ id, error: { code: REQUEST_FAILED } })));
        await app.settled(NOTHING);
      });

      it('shutdown lets running calls end within drainMs, and refuses new ones meanwhile', async () => {
        const app = await start({ drainMs: 30_000 });
        const client = app.client();
        const posted = client.post(waiting(client, 'a'));
        await stage.entered('a');
        const closing = app.shutDown();
        await eventually(() => expect(app.service.accepting).toBe(false));
        await expectRefusal(await client.call('echo', {}, { id: 9 }), { status: 503, code: REQUEST_FAILED, id: 9 });
        const taken = await client.post({ jsonrpc: '2.0', method: 'notifications/initialized' });
        expect([taken.status, await taken.text()]).toEqual([202, '']);
        stage.release('a', 'in time');
        expect(gists([await answerOf(await posted)])).toEqual(['in time']);
        await closing;
        expect(stage.left).toEqual([]);
        await app.settled(NOTHING);
      });
    });
  });
});

describe('S17: the option sessions', () => {
  const begin = testApps('fastify');
  let served: ReturnType<(typeof SERVED)[number][1]>;
  beforeEach(() => {
    served = SERVED[0]![1]();
  });

  it('the option "sessions" is "required" by default', async () => {
    const app = await begin(served.options);
    const client = await app.client().initialize();
    expect(client.sessionId).toMatch(/^\w{22}$/);
    await expectRefusal(await app.client().call('echo', {}, { id: 1 }), { status: 400, code: -32000, id: 1 });
  });

  it('"off": a handler whose question to the client fails with NO_STREAM can go on', async () => {
    const app = await begin({ ...served.options, sessions: 'off' });
    const handler: McpHandlerFunction<object> = async (_, ctx) => {
      const asked = await Promise.allSettled([
        ctx.elicit('who', FORM),
        ctx.sample('model', SAMPLE),
        ctx.roots('roots'),
      ]);
      const codes = asked.map((one) => one.status === 'rejected' && (one.reason as McpServerRequestError).code);
      return [codes, ctx.clientCapabilities, ctx.closeStream(), currentMcpCall()?.session ?? null];
    };
    registryOf(app).registerTool({ name: 'tries', handler });
    const { result } = await answerOf(await app.client().call('tries'));
    const failed = ['NO_STREAM', 'NO_STREAM', 'NO_STREAM'];
    expect(JSON.parse(result.content[0].text)).toEqual([failed, {}, false, null]);
  });

  it('"off": a message after the answer is dropped, and reported in events$', async () => {
    const app = await begin({ ...served.options, sessions: 'off' });
    const go = gate();
    const over = gate<unknown>();
    const handler: McpHandlerFunction<object> = (_, ctx) => {
      void go.promise.then(async () => {
        await ctx.progress(1);
        over.open(await ctx.roots('late').catch((error: McpServerRequestError) => error.code));
      });
      return 'early';
    };
    registryOf(app).registerTool({ name: 'late', handler });
    const events = recordedEvents(app);
    expect(gists([await answerOf(await app.client().call('late', {}, { progressToken: 1 }))])).toEqual(['early']);
    go.open();
    expect(await over.promise).toBe('NO_STREAM');
    expect(events).toMatchObject([
      { type: 'late-message', sessionId: '', method: 'notifications/progress', disposition: 'dropped' },
    ]);
  });

  it('"off": calls$ reports each call, without a session id', async () => {
    const app = await begin({ ...served.options, sessions: 'off' });
    const ends: McpCallEnd[] = [];
    app.service.calls$.subscribe((end) => ends.push(end));
    const client = app.client({ ...as('anna'), ...versioned('2025-06-18') });
    await answerOf(await client.call('echo', { name: 'hi' }));
    const call = {
      era: 'legacy',
      name: 'echo',
      sessionId: undefined,
      principal: 'anna',
      protocolVersion: '2025-06-18',
    };
    expect(ends).toMatchObject([{ outcome: 'ok', call }]);
  });

  it('"off": the state of a principal outlives its call', async () => {
    const app = await begin({ ...served.options, sessions: 'off', clock: new ManualClock() });
    const handler: McpHandlerFunction<{ handle?: string }> = async ({ handle }, ctx) => {
      const state = await ctx.state(handle);
      const calls = Number(state.data['calls'] ?? 0) + 1;
      if (calls < 3) await state.patch({ calls });
      else await state.delete();
      return { handle: state.handle, calls };
    };
    registryOf(app).registerTool({ name: 'counts', inputSchema: { type: 'object' }, handler });
    const first = await answerOf(await app.client(as('anna')).call('counts'));
    const { handle } = JSON.parse(first.result.content[0].text) as { handle: string };
    const foreign = await answerOf(await app.client(as('bert')).call('counts', { handle }));
    expect(foreign.result.isError).toBe(true);
    for (const calls of [2, 3]) {
      const { result } = await answerOf(await app.client(as('anna')).call('counts', { handle }));
      expect(JSON.parse(result.content[0].text)).toEqual({ handle, calls });
    }
  });

  it('"off": McpSessionService has no sessions', async () => {
    const app = await begin({ ...served.options, sessions: 'off' });
    await answerOf(await app.client().post(app.client().initializeMessage()));
    expect(await app.service.list()).toEqual([]);
    expect(await app.service.notify(() => true, { method: 'notifications/tools/list_changed' })).toBe(0);
    expect(await app.service.terminate('unknown-but-well-formed-0001')).toBe(false);
  });

  it('"off" and eras "legacy": a modern client is refused with the revisions that are served', async () => {
    const app = await begin({ ...served.options, sessions: 'off', eras: 'legacy' });
    const response = await new ModernClient(app.url).request('tools/list', {}, { id: 2 });
    const { data } = await expectRefusal(response, { status: 400, code: -32022, id: 2 });
    expect(data).toMatchObject({ supported: REVISIONS });
  });

  it('"off" and eras "modern": an older client is refused with the revision that is served', async () => {
    const app = await begin({ ...served.options, sessions: 'off', eras: 'modern' });
    const response = await app.client().call('echo', {}, { id: 3 });
    const { data } = await expectRefusal(response, { status: 400, code: -32022, id: 3 });
    expect(data).toMatchObject({ supported: ['2026-07-28'] });
  });
});
