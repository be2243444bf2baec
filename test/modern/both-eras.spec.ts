import { Injectable } from '@nestjs/common';
import {
  McpArgs,
  McpCtx,
  Prompt,
  Resource,
  Tool,
  toolLog,
  toolProgress,
  type McpContext,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { concat, defer, finalize, NEVER, of, type Observable } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { eventually, testApps } from '../support/test-apps.js';
import { PINNED, textOf, type Answers, type Official } from '../support/official-kinds.js';
import { as } from '../support/users.js';

/*
 * One file of handlers, written once, and one suite that both eras pass: what a handler does is the same for its client,
 * whichever era that speaks, down to the texts.
 */

const Trip = z.object({ city: z.string(), days: z.int() });
const SUMMARIZE = {
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Summarize Bonn.' } }],
  maxTokens: 100,
};

@Injectable()
class TripTools {
  /** What was done, and how often: handlers of the modern era run again for each answer. */
  done: string[] = [];

  @Tool({ name: 'book', inputSchema: z.object({ who: z.string() }) })
  async book(@McpArgs() { who }: { who: string }, @McpCtx() ctx: McpContext): Promise<string> {
    const answer = await ctx.elicit('trip', { message: `Where to, ${who}?`, requestedSchema: Trip });
    if (answer.action !== 'accept') return `${who} stays at home: ${answer.action}`;
    const { city, days } = answer.content;
    const price = await ctx.once('price', () => {
      this.done.push('priced');
      return days * 100;
    });
    const sure = await ctx.elicit('sure', {
      message: `${city} for ${price}?`,
      requestedSchema: { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] },
    });
    this.done.push('booked');
    return `${who} goes to ${city} for ${days} days: ${JSON.stringify(sure.content)}`;
  }

  @Tool({ name: 'summarize' })
  async summarize(@McpCtx() ctx: McpContext): Promise<string> {
    const { model, content } = await ctx.sample('summary', SUMMARIZE);
    return `${model} says: ${(content as { text: string }).text}`;
  }

  @Tool({ name: 'where' })
  async where(@McpCtx() ctx: McpContext): Promise<string> {
    const { roots } = await ctx.roots('roots');
    return roots.map(({ uri }) => uri).join();
  }

  @Tool({ name: 'everything' })
  async everything(@McpCtx() ctx: McpContext): Promise<object> {
    const { trip, summary, roots } = await ctx.ask({
      trip: { method: 'elicitation/create', params: { message: 'Where to?', requestedSchema: Trip } },
      summary: { method: 'sampling/createMessage', params: SUMMARIZE },
      roots: { method: 'roots/list' },
    });
    return { city: trip.content?.['city'], model: summary.model, roots: roots.roots.length };
  }

  @Tool({ name: 'walk' })
  walk(): Observable<ToolEvent> {
    return concat(
      of(toolProgress(1, 3, 'left'), toolLog('debug', 'a stone'), toolLog('warning', 'a river', 'walker')),
      of(toolProgress(2, 3), toolProgress(3, 3, 'right')),
      of({ steps: 3 }),
    );
  }

  @Tool({ name: 'stroll' })
  async *stroll(): AsyncGenerator<ToolEvent> {
    yield toolProgress(1, 2);
    yield toolProgress(2, 2);
    yield 'strolled';
  }

  @Tool({ name: 'asks-on-the-way' })
  asksOnTheWay(@McpCtx() ctx: McpContext): Observable<ToolEvent> {
    return concat(
      of(toolProgress(1, 2)),
      defer(async () => {
        const { action } = await ctx.elicit('on', {
          message: 'Go on?',
          requestedSchema: { type: 'object', properties: {} },
        });
        return `${action}ed on the way`;
      }),
    );
  }

  @Tool({ name: 'wait' })
  wait(): Observable<ToolEvent> {
    this.done.push('waiting');
    return concat(of(toolProgress(1)), NEVER).pipe(finalize(() => this.done.push('left')));
  }

  @Tool({ name: 'slow' })
  async slow(@McpCtx() { signal }: McpContext): Promise<string> {
    this.done.push('waiting');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    this.done.push('left');
    return 'too late';
  }

  @Tool({ name: 'fail' })
  fail(): never {
    throw new Error('the database password');
  }

  @Tool({ name: 'who' })
  who(@McpCtx() { principal, method }: McpContext): object {
    return { principal, method };
  }

  @Resource({ uri: 'trips://mine', name: 'mine' })
  async mine(@McpCtx() ctx: McpContext): Promise<string> {
    const { action } = await ctx.elicit('read', {
      message: 'Read?',
      requestedSchema: { type: 'object', properties: {} },
    });
    return `read: ${action}`;
  }

  @Prompt({ name: 'plan' })
  async plan(@McpCtx() ctx: McpContext): Promise<string> {
    const { roots } = await ctx.roots('roots');
    return `Plan with ${roots.length} roots.`;
  }
}

describe.each(ONE_ADAPTER)('handlers that are written once, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, eras: 'both', errorDetails: false });

  describe.each(PINNED)('for $name', ({ era, connect }) => {
    let app: TestApp;
    let tools: TripTools;
    let asked: unknown[];
    let client: Official;

    const accept = (content: object) => ({ action: 'accept', content });
    const answers: Answers = {
      elicit: ({ message }) => {
        asked.push(message);
        if (message.startsWith('Where to')) return accept({ city: 'Bonn', days: 3 });
        return message.startsWith('Bonn') ? accept({ sure: true }) : accept({});
      },
      sample: () => {
        asked.push('sample');
        return { role: 'assistant', model: 'a model', content: { type: 'text', text: 'By the Rhine.' } };
      },
      roots: () => {
        asked.push('roots');
        return { roots: [{ uri: 'file:///one' }, { uri: 'file:///two' }] };
      },
    };
    const connected = async (given: Answers = answers): Promise<Official> => {
      client = await connect(app, as('anna'), given);
      return client;
    };

    beforeEach(async () => {
      asked = [];
      app = await start({ providers: [TripTools] });
      tools = app.app.get(TripTools);
      // One list, whichever node does it.
      const done: string[] = [];
      for (const { app: node } of app.nodes) node.get(TripTools).done = done;
    });
    afterEach(() => client.close());

    it('handlers that are written once get the principal of the caller, and return structured results', async () => {
      await connected();
      expect(client.era).toBe(era);
      const { structuredContent } = await client.call('who');
      expect(structuredContent).toEqual({ principal: 'anna', method: 'tools/call' });
    });

    it('elicitation: ask one question after the other, each once', async () => {
      await connected();
      expect(textOf(await client.call('book', { who: 'Anna' }))).toBe('Anna goes to Bonn for 3 days: {"sure":true}');
      expect(asked).toEqual(['Where to, Anna?', 'Bonn for 300?']);
      expect(tools.done).toEqual(['priced', 'booked']);
    });

    it.each(['decline', 'cancel'])('elicitation: get the %s of the user', async (action) => {
      await connected({ elicit: () => ({ action }) });
      expect(textOf(await client.call('book', { who: 'Anna' }))).toBe(`Anna stays at home: ${action}`);
      expect(tools.done).toEqual([]);
    });

    it('elicitation: get only the answers of their own caller', async () => {
      await connected({ elicit: () => accept({ city: 'Bonn', days: 3, sure: true }) });
      const other = await connect(app, as('bert'), { elicit: () => ({ action: 'decline' }) });
      const [anna, bert] = await Promise.all([client.call('book', { who: 'A' }), other.call('book', { who: 'B' })]);
      expect(textOf(anna)).toMatch(/^A goes to Bonn/);
      expect(textOf(bert)).toBe('B stays at home: decline');
      await other.close();
    });

    it('sampling: get the message that the client samples', async () => {
      await connected();
      expect(textOf(await client.call('summarize'))).toBe('a model says: By the Rhine.');
    });

    it('roots: get the roots of the client', async () => {
      await connected();
      expect(textOf(await client.call('where'))).toBe('file:///one,file:///two');
    });

    it('handlers that are written once ask several questions at once', async () => {
      await connected();
      const { structuredContent } = await client.call('everything');
      expect(structuredContent).toEqual({ city: 'Bonn', model: 'a model', roots: 2 });
      expect(asked.map(String).toSorted()).toEqual(['Where to?', 'roots', 'sample']);
    });

    it('handlers that are written once ask also in resources and prompts', async () => {
      await connected();
      const { contents } = await client.client.readResource({ uri: 'trips://mine' });
      expect(contents).toMatchObject([{ text: 'read: accept' }]);
      const { messages } = await client.client.getPrompt({ name: 'plan' });
      expect(messages).toMatchObject([{ content: { text: 'Plan with 2 roots.' } }]);
    });

    it('handlers that are written once ask also in the middle of an Observable', async () => {
      await connected();
      expect(textOf(await client.call('asks-on-the-way'))).toBe('accepted on the way');
      expect(asked).toEqual(['Go on?']);
    });

    it.each(['walk', 'stroll'])(
      'handlers that are written once report progress in order and before the result (%s)',
      async (name) => {
        await connected();
        const seen: unknown[] = [];
        const { content } = await client.call(name, {}, { onprogress: (progress) => seen.push(progress) });
        const left = { progress: 1, total: 3, message: 'left' };
        expect(seen).toEqual(
          name === 'walk'
            ? [left, { progress: 2, total: 3 }, { progress: 3, total: 3, message: 'right' }]
            : [
                { progress: 1, total: 2 },
                { progress: 2, total: 2 },
              ],
        );
        expect(content).toHaveLength(1);
      },
    );

    it('log: send messages of the level that the client has set', async () => {
      await connected();
      await client.wantLogs('info');
      expect((await client.call('walk')).structuredContent).toEqual({ steps: 3 });
      expect(client.logs).toEqual(['a river']);
      await client.wantLogs('debug');
      await client.call('walk');
      expect(client.logs).toEqual(['a river', 'a stone', 'a river']);
    });

    it.each(['wait', 'slow'])(
      'handlers that are written once are cancelled when the client cancels the call (%s)',
      async (name) => {
        await connected();
        const abort = new AbortController();
        const call = client.call(name, {}, { signal: abort.signal });
        call.catch(() => {});
        await eventually(() => expect(tools.done).toEqual(['waiting']));
        abort.abort();
        await expect(call).rejects.toThrow(/abort|cancel/i);
        await eventually(() => expect(tools.done).toEqual(['waiting', 'left']));
        await app.settled({ inFlight: 0 });
        expect((await client.call('who')).isError).toBeFalsy();
      },
    );

    it('errors: send no details of internal errors', async () => {
      await connected();
      const { isError, content } = await client.call('fail');
      expect(isError).toBe(true);
      expect(JSON.stringify(content)).not.toContain('password');
      await expect(client.call('nothing')).rejects.toMatchObject({ code: -32602 });
      expect((await client.call('book', { who: 7 })).isError).toBe(true);
    });
  });
});
