import { Injectable } from '@nestjs/common';
import { McpCtx, Tool, toolLog, type McpContext, type ToolEvent } from 'nestjs-mcp-streamable';
import { concat, of, type Observable } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { gists } from '../support/messages.js';
import type { RawClient } from '../support/raw-client.js';
import { as } from '../support/users.js';

const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'] as const;

/** Say a word at each level, in either way. */
@Injectable()
class Talkers {
  @Tool({ name: 'emits' })
  emits(): Observable<ToolEvent<string>> {
    return concat(of(...LEVELS.map((level) => toolLog(level, level, 'talker'))), of('said'));
  }
  @Tool({ name: 'logs' })
  async logs(@McpCtx() context: McpContext): Promise<string> {
    for (const level of LEVELS) await context.log(level, level, 'talker');
    return 'said';
  }
}

describe.each(ONE_ADAPTER)('the log level on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Talkers] });
  const connect = officialClients();

  const setLevel = async (client: RawClient, level: unknown): Promise<unknown> => {
    const params = { level };
    const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'logging/setLevel', params });
    const { result, error } = await response.json();
    return result ?? error.code;
  };
  /** What a session is told by a call. */
  const told = async (client: RawClient, tool: string): Promise<unknown[]> => {
    const response = await client.call(tool);
    if (response.header('content-type') !== 'text/event-stream') return gists([await response.json()]);
    const stream = response.sse();
    expect(await stream.end()).toBe('end');
    return gists(stream.messages);
  };
  const from = (level: (typeof LEVELS)[number]) => [...LEVELS.slice(LEVELS.indexOf(level)), 'said'];

  it.each(['emits', 'logs'])('the log level is that of each session, also at the same time (%s)', async (tool) => {
    const app = await start();
    const sessions = await Promise.all(LEVELS.map(() => app.client(as('anna')).initialize()));
    const untouched = await app.client(as('anna')).initialize();
    for (const [n, level] of LEVELS.entries()) expect(await setLevel(sessions[n]!, level)).toEqual({});
    for (let round = 0; round < 3; round++) {
      const all = await Promise.all(sessions.map((client) => told(client, tool)));
      expect(all).toEqual(LEVELS.map((level) => from(level)));
      expect(await told(untouched, tool)).toEqual(from('debug'));
    }
    // It may change.
    expect(await setLevel(sessions[0]!, 'alert')).toEqual({});
    expect(await told(sessions[0]!, tool)).toEqual(from('alert'));
    expect(await told(sessions[1]!, tool)).toEqual(from('info'));
    const levels = new Map((await app.service.list()).map(({ id, logLevel }) => [id, logLevel]));
    const recorded = [...sessions, untouched].map(({ sessionId }) => levels.get(sessionId!));
    expect(recorded).toEqual(['alert', ...LEVELS.slice(1), undefined]);
  });

  it.each(['emits', 'logs'])('the log level is still that of the session when it is rebuilt (%s)', async (tool) => {
    const app = await start();
    const client = await app.client().initialize();
    await setLevel(client, 'error');
    for (let times = 0; times < 2; times++) {
      await app.release(client.sessionId!);
      await app.settled({ live: 0 });
      expect(await told(client, tool)).toEqual(from('error'));
    }
    await app.release(client.sessionId!);
    expect(await setLevel(client, 'critical')).toEqual({});
    await app.release(client.sessionId!);
    expect(await told(client, tool)).toEqual(from('critical'));
  });

  it('the log level is not changed by what is no level, which is refused', async () => {
    const app = await start();
    const client = await app.client().initialize();
    await setLevel(client, 'error');
    for (const level of ['verbose', '', 5, null, undefined, 'constructor']) {
      expect([level, await setLevel(client, level)]).toEqual([level, -32602]);
      expect(await told(client, 'emits')).toEqual(from('error'));
    }
  });

  it('the log level applies to messages of McpSessionService.notify(), to live sessions and others', async () => {
    const app = await start();
    const [quiet, loud, released] = await Promise.all(
      [app.client(), app.client(), app.client()].map((c) => c.initialize()),
    );
    for (const client of [quiet!, released!]) expect(await setLevel(client, 'error')).toEqual({});
    await app.release(released!.sessionId!);
    const say = (to: string | (() => boolean), level: unknown, data: string): Promise<number> =>
      app.service.notify(to, { method: 'notifications/message', params: { level, data } });

    for (const { sessionId } of [quiet!, released!]) expect(await say(sessionId!, 'warning', 'to one')).toBe(0);
    expect(await say(loud!.sessionId!, 'debug', 'to one')).toBe(1);
    for (const [n, level] of LEVELS.entries()) {
      expect(await say(() => true, level, level)).toBe(n < LEVELS.indexOf('error') ? 1 : 3);
    }
    // No level that could be compared, and no log message.
    expect(await say(() => true, undefined, 'without a level')).toBe(3);
    expect(await app.service.notify(() => true, { method: 'notifications/own', params: { level: 'debug' } })).toBe(3);

    for (const client of [quiet!, released!, loud!]) {
      const heard = client === loud ? ['to one', ...LEVELS] : from('error').slice(0, -1);
      const stream = await (await client.listen()).count(heard.length + 2);
      const data = stream.messages.map(({ params }: { params: { data?: unknown } }) => params.data);
      expect(data).toEqual([...heard, 'without a level', undefined]);
    }
    expect(await setLevel(quiet!, 'debug')).toEqual({});
    expect(await say(quiet!.sessionId!, 'debug', 'again')).toBe(1);
  });

  it('the log level is the one that an official client sets', async () => {
    const app = await start();
    const heard: Record<string, unknown[]> = { one: [], two: [] };
    for (const [name, level] of [
      ['one', 'warning'],
      ['two', 'emergency'],
    ] as const) {
      const client = await connect(app);
      client.setNotificationHandler('notifications/message', ({ params }) => {
        expect(params.logger).toBe('talker');
        heard[name]!.push(params.data);
      });
      await client.setLoggingLevel(level);
      await client.callTool({ name: 'emits', arguments: {} });
      await client.callTool({ name: 'logs', arguments: {} });
    }
    const twice = (level: (typeof LEVELS)[number]) => Array(2).fill(from(level).slice(0, -1)).flat();
    expect(heard).toEqual({ one: twice('warning'), two: twice('emergency') });
  });
});
