import { ConflictException } from '@nestjs/common';
import { ProtocolError } from '@modelcontextprotocol/server';
import { toolLog, toolProgress, type McpContext } from 'nestjs-mcp-streamable';
import {
  concat,
  defer,
  EMPTY,
  from,
  materialize,
  of,
  Subject,
  throwError,
  type Observable,
  type ObservableNotification,
} from 'rxjs';
import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { eventually, officialClients, testApps } from '../support/test-apps.js';
import type { SseStream } from '../support/http.js';
import { asking, KINDS, messageOf, resultText, type Kind } from '../support/kinds.js';
import { gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { fourOf } from './four.js';

/** What a handler's source does comes from here, by the name of the call. */
let sources: Map<unknown, Subject<unknown>>;

/** The ways in which a result may come in parts. */
const FORMS: Record<string, (source: Observable<unknown>) => unknown> = {
  observable: (source) => source,
  promised: (source) => Promise.resolve(source),
  iterable: (source) => valuesOf(source),
};

/** The values of an Observable as they come. */
async function* valuesOf(source: Observable<unknown>): AsyncGenerator {
  const waiting: Notification[] = [];
  let wake = (): void => {};
  const take = (notification: Notification): void => {
    waiting.push(notification);
    wake();
  };
  const subscription = source.pipe(materialize()).subscribe(take);
  try {
    for (;;) {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        if (next.kind === 'E') throw next.error;
        if (next.kind === 'C') return;
        yield next.value;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  } finally {
    subscription.unsubscribe();
  }
}

type Notification = ObservableNotification<unknown>;

/** A call is told apart by a header, so that it is told apart without a token, too. */
const callOf = ({ request }: McpContext): unknown =>
  (request as { headers: object & { 'x-call'?: string } }).headers['x-call'];
const steps$ = from([toolProgress(1, 3), toolLog('info', 'half'), toolProgress(3, 3, 'all'), 'the result']);
const steps = ['progress 1', 'half', 'progress 3', 'the result'];

const hosts = Object.entries(FORMS).flatMap(([form, wrap]) => [
  fourOf(`${form}steps`, { run: () => wrap(steps$) }),
  fourOf(`${form}directed`, {
    run: (context) => {
      const subject = new Subject();
      sources.set(callOf(context), subject);
      return wrap(subject);
    },
  }),
  ...Object.entries<unknown>({
    plain: new Error('secret'),
    http: new ConflictException('Somebody else has it'),
    protocol: new ProtocolError(-32042, 'Go there', { url: 'https://there' }),
  }).map(([name, error]) =>
    fourOf(`${form}${name}`, {
      run: () =>
        wrap(
          concat(
            of(toolProgress(1)),
            defer(() => throwError(() => error)),
          ),
        ),
    }),
  ),
  fourOf(`${form}several`, { run: () => wrap(of(toolProgress(1), 'one', 'two')) }),
  fourOf(`${form}empty`, { run: () => wrap(EMPTY) }),
]);

const CASES = Object.keys(FORMS).flatMap((form) => KINDS.map((kind) => [form, kind] as const));

describe.each(ONE_ADAPTER)('results that come in parts, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: hosts, errorDetails: false });
  const connect = officialClients();
  beforeEach(() => {
    sources = new Map();
  });

  const call = (client: RawClient, kind: Kind, host: string, progressToken?: unknown) => {
    const message = messageOf(client, kind, host);
    const _meta = progressToken === undefined ? undefined : { progressToken };
    const headers = { 'x-call': String(progressToken) };
    return client.post({ ...message, params: { ...message.params, ...(_meta && { _meta }) } }, headers);
  };
  /** The result in one word, whichever kind it is of. */
  const gistsOf = ({ messages }: SseStream): unknown[] =>
    messages.map((message) => (message.result ? resultText(message.result) : gists([message])[0]));
  const sourceOf = async (token: unknown): Promise<Subject<unknown>> => {
    await eventually(() => expect(sources.has(token)).toBe(true));
    return sources.get(token)!;
  };

  it.each(CASES)(
    'results that come in parts send reports on the stream of their own POST, with its token (%s, %s)',
    async (form, kind) => {
      const app = await start();
      const client = await app.client().initialize();
      const standalone = await client.listen();
      const stream = (await call(client, kind, `${form}steps`, 'my token')).sse();
      expect(await stream.end()).toBe('end');
      expect(gistsOf(stream)).toEqual(steps);
      expect(stream.messages[0].params).toEqual({ progressToken: 'my token', progress: 1, total: 3 });
      expect(stream.messages[2].params).toEqual({ progressToken: 'my token', progress: 3, total: 3, message: 'all' });
      expect(standalone.events).toEqual([]);
      standalone.destroy();
    },
  );

  it.each(CASES)('results that come in parts send each report at once (%s, %s)', async (form, kind) => {
    const app = await start();
    const client = await app.client().initialize();
    const posted = call(client, kind, `${form}directed`, 'token');
    const source = await sourceOf('token');
    source.next(toolProgress(1));
    const stream = await (await posted).sse().count(1);
    source.next(toolLog('info', 'a word'));
    await stream.count(2);
    source.next(toolProgress(2));
    await stream.count(3);
    source.next('the result');
    source.complete();
    expect(await stream.end()).toBe('end');
    expect(gistsOf(stream)).toEqual(['progress 1', 'a word', 'progress 2', 'the result']);
  });

  it.each(CASES)(
    'results that come in parts send no progress to a client that did not ask for it (%s, %s)',
    async (form, kind) => {
      const app = await start();
      const client = await app.client().initialize();
      const stream = (await call(client, kind, `${form}steps`)).sse();
      expect(await stream.end()).toBe('end');
      expect(gistsOf(stream)).toEqual(['half', 'the result']);
      // With nothing else to say it is JSON.
      const posted = call(client, kind, `${form}directed`);
      const source = await sourceOf('undefined');
      source.next(toolProgress(1));
      source.next('the result');
      source.complete();
      const response = await posted;
      expect(response.header('content-type')).toMatch('application/json');
      expect(resultText((await response.json()).result)).toBe('the result');
    },
  );

  it.each(Object.keys(FORMS))(
    'results that come in parts mix up no calls, of one session and of several (%s)',
    async (form) => {
      const app = await start();
      const clients = await Promise.all([1, 2, 3].map(() => app.client().initialize()));
      const calls = clients.flatMap((client, n) => KINDS.map((kind) => ({ client, kind, token: `${n} ${kind}` })));
      const posted = calls.map(({ client, kind, token }) => call(client, kind, `${form}directed`, token));
      for (const { token } of calls) await sourceOf(token);
      // Interleaved, each with numbers of its own.
      for (let step = 1; step <= 5; step++) {
        for (const [n, { token }] of calls.entries()) {
          sources.get(token)!.next(toolProgress(step + 100 * n));
          if (step === 3) await new Promise(setImmediate);
        }
      }
      for (const { token } of calls.toReversed()) {
        sources.get(token)!.next(`result of ${token}`);
        sources.get(token)!.complete();
      }
      for (const [n, response] of (await Promise.all(posted)).entries()) {
        const stream = response.sse();
        expect(await stream.end()).toBe('end');
        const { token } = calls[n]!;
        const reports = [1, 2, 3, 4, 5].map((step) => `progress ${step + 100 * n}`);
        expect(gistsOf(stream)).toEqual([...reports, `result of ${token}`]);
        expect(stream.messages.slice(0, 5).every(({ params }) => params.progressToken === token)).toBe(true);
      }
    },
  );

  it.each(CASES)(
    'results that come in parts send an error after the progress before it (%s, %s)',
    async (form, kind) => {
      const app = await start();
      const client = await app.client().initialize();
      const failure = async (name: string) => {
        const stream = (await call(client, kind, `${form}${name}`, 'token')).sse();
        expect(await stream.end()).toBe('end');
        expect(gists(stream.messages.slice(0, 1))).toEqual(['progress 1']);
        expect(stream.messages).toHaveLength(2);
        expect(stream.body).not.toMatch(/secret|\bat /);
        return stream.messages[1];
      };
      const tool = kind === 'tool';
      const plain = await failure('plain');
      expect(tool ? plain.result.isError : plain.error.code).toBe(tool ? true : -32603);
      expect(app.log.texts('error').join()).toContain('secret');
      const http = await failure('http');
      expect(tool ? [http.result.isError, resultText(http.result)] : [http.error.code, http.error.message]).toEqual([
        tool ? true : -32603,
        'Somebody else has it',
      ]);
      const { error } = await failure('protocol');
      expect(error).toEqual({ code: -32042, message: 'Go there', data: { url: 'https://there' } });
      const several = await failure('several');
      expect(tool ? several.result.isError : several.error.code).toBe(tool ? true : -32603);
      expect(app.log.texts('error').at(-1)).toContain('more than one value');
    },
  );

  it.each(CASES)('results that come in parts may end without a result (%s, %s)', async (form, kind) => {
    const app = await start();
    const client = await app.client().initialize();
    const { result, error } = await (await call(client, kind, `${form}empty`)).json();
    if (kind === 'tool') expect(result).toEqual({ content: [{ type: 'text', text: 'The tool returned nothing.' }] });
    else if (kind === 'prompt') expect(result).toEqual({ messages: [] });
    else expect(error).toMatchObject({ code: -32602, data: { uri: asking(kind, `${form}empty`).params.uri } });
  });

  it.each(CASES)('results that come in parts reach an official client (%s, %s)', async (form, kind) => {
    const app = await start();
    const client = await connect(app);
    const heard: unknown[] = [];
    client.setNotificationHandler('notifications/message', ({ params }) => void heard.push(params.data));
    const onprogress = ({ progress, total, message }: object & Record<string, unknown>) =>
      void heard.push([progress, total, message]);
    const request = asking(kind, `${form}steps`) as never;
    const result = await client.request(request, { onprogress });
    expect(resultText(result)).toBe('the result');
    expect(heard).toEqual([[1, 3, undefined], 'half', [3, 3, 'all']]);
  });

  it.each(CASES)(
    'results that come in parts continue when the client has disconnected, and wait for it (%s, %s)',
    async (form, kind) => {
      const app: TestApp = await start();
      const client = await app.client().initialize();
      const posted = call(client, kind, `${form}directed`, 'token');
      const source = await sourceOf('token');
      source.next(toolProgress(1));
      const stream = await (await posted).sse().count(1);
      stream.destroy();
      await app.settled({ readers: 0, inFlight: 1 });
      source.next(toolProgress(2));
      const resumed = (await client.get(stream.events[0]!.id)).sse();
      await resumed.count(1);
      source.next('the result');
      source.complete();
      expect(await resumed.end()).toBe('end');
      expect(gistsOf(resumed)).toEqual(['progress 2', 'the result']);
    },
  );
});
