import { Injectable } from '@nestjs/common';
import {
  Complete,
  McpArgs,
  McpCtx,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  toolLog,
  toolProgress,
  type McpContext,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { finalize, NEVER, concat, of, type Observable } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { eventually, registryOf, testApps } from '../support/test-apps.js';
import { OFFICIAL_KINDS, textOf, type Official } from '../support/official-kinds.js';
import { as } from '../support/users.js';

let unsubscribed: number;

@Injectable()
class Orders {
  @Tool({
    name: 'add',
    inputSchema: z.object({ a: z.number(), b: z.number() }),
    outputSchema: z.object({ sum: z.number() }),
  })
  add(@McpArgs() { a, b }: { a: number; b: number }): { sum: number } {
    return { sum: a + b };
  }
  @Tool({ name: 'who' })
  who(@McpCtx() { principal, session }: McpContext): string {
    return `${principal}, ${session ? 'in a session' : 'without a session'}`;
  }
  @Tool({ name: 'export' })
  export(): Observable<ToolEvent> {
    return concat(of(toolProgress(1, 2, 'half'), toolLog('info', 'exporting'), toolProgress(2, 2)), of('exported'));
  }
  @Tool({ name: 'forever' })
  forever(): Observable<ToolEvent> {
    return concat(of(toolProgress(1)), NEVER).pipe(finalize(() => unsubscribed++));
  }
  @Resource({ uri: 'orders://terms', name: 'terms', mimeType: 'text/plain' })
  terms(): string {
    return 'the terms';
  }
  @ResourceTemplate({ uriTemplate: 'orders://{id}/lines', name: 'lines' })
  lines(@McpArgs('id') id: string): string {
    return `lines of ${id}`;
  }
  @Prompt({ name: 'review', arguments: [{ name: 'city', required: true }] })
  review(@McpArgs() { city }: { city: string }): string {
    return `Review the orders of ${city}.`;
  }
  @Complete({ prompt: 'review', argument: 'city' })
  cities(value: string): string[] {
    return ['Bonn', 'Berlin', 'Kiel'].filter((city) => city.startsWith(value));
  }
}

describe.each(ONE_ADAPTER)('official clients and one endpoint that serves both eras, on %s', (adapter) => {
  const start = testApps(adapter, { providers: [Orders], eras: 'both' });
  const clients: Official[] = [];
  beforeEach(() => {
    unsubscribed = 0;
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  describe.each(OFFICIAL_KINDS)('$name', ({ era, connect }) => {
    let app: TestApp;
    let client: Official;
    beforeEach(async () => {
      app = await start();
      client = await connect(app, as('anna'));
      clients.push(client);
    });
    // Its standalone stream ends with its session, and is not opened again.
    afterEach(() => client.close());

    it('§0: an official client of an endpoint that serves both eras uses its own era, with a session in the legacy one', async () => {
      expect(client.era).toBe(era);
      expect(client.sessionId === undefined).toBe(era === 'modern');
      const session = era === 'modern' ? 'without a session' : 'in a session';
      expect(textOf(await client.call('who'))).toBe(`anna, ${session}`);
      await app.settled({ sessions: era === 'modern' ? 0 : 1, inFlight: 0 });
    });

    it('an official client of an endpoint that serves both eras lists and calls tools', async () => {
      const { tools } = await client.client.listTools();
      expect(tools.map(({ name }) => name)).toEqual(['add', 'who', 'export', 'forever']);
      expect((await client.call('add', { a: 1, b: 2 })).structuredContent).toEqual({ sum: 3 });
      expect((await client.call('add', { a: 'x' })).isError).toBe(true);
      await expect(client.call('none')).rejects.toMatchObject({ code: -32602 });
    });

    it('an official client of an endpoint that serves both eras gets progress and log messages before the result', async () => {
      const seen: unknown[] = [];
      await client.wantLogs('info');
      const onprogress = ({ progress, total, message }: object & Record<string, unknown>): void => {
        seen.push([progress, total, message]);
      };
      expect(textOf(await client.call('export', {}, { onprogress }))).toBe('exported');
      expect(seen).toEqual([
        [1, 2, 'half'],
        [2, 2, undefined],
      ]);
      expect(client.logs).toEqual(['exporting']);
    });

    it('an official client of an endpoint that serves both eras lists and reads resources and templates', async () => {
      const { resources } = await client.client.listResources();
      expect(resources.map(({ uri }) => uri)).toEqual(['orders://terms']);
      const { resourceTemplates } = await client.client.listResourceTemplates();
      expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual(['orders://{id}/lines']);
      const terms = await client.client.readResource({ uri: 'orders://terms' });
      expect(terms.contents).toEqual([{ uri: 'orders://terms', mimeType: 'text/plain', text: 'the terms' }]);
      const lines = await client.client.readResource({ uri: 'orders://7/lines' });
      expect(lines.contents).toMatchObject([{ text: 'lines of 7' }]);
      await expect(client.client.readResource({ uri: 'orders://none' })).rejects.toThrow('orders://none');
    });

    it('an official client of an endpoint that serves both eras lists and gets prompts, and completes their arguments', async () => {
      const { prompts } = await client.client.listPrompts();
      expect(prompts.map(({ name }) => name)).toEqual(['review']);
      const { messages } = await client.client.getPrompt({ name: 'review', arguments: { city: 'Bonn' } });
      expect(messages).toMatchObject([{ content: { text: 'Review the orders of Bonn.' } }]);
      const { completion } = await client.client.complete({
        ref: { type: 'ref/prompt', name: 'review' },
        argument: { name: 'city', value: 'B' },
      });
      expect(completion.values).toEqual(['Bonn', 'Berlin']);
    });

    it('an official client of an endpoint that serves both eras is notified of changes of a list and of a resource', async () => {
      await client.watch('orders://terms');
      if (era === 'legacy') await app.settled({ readers: 1 });
      else await app.settled({ subscriptions: 1 });
      await app.service.resourceUpdated('orders://terms');
      await app.service.resourceUpdated('orders://7/lines');
      registryOf(app).registerTool({ name: 'late', handler: () => 'late' });
      // Each process tells of its own registry; a client may make one of two.
      const late = [['tools'], app.nodes.map(() => 'tools')].map((tools) => ['orders://terms', ...tools]);
      // Of two processes there is no saying which is heard first.
      const heard = () => (app.nodes.length > 1 ? client.changes.toSorted() : client.changes);
      await eventually(() => expect(late).toContainEqual(heard()));
      const { tools } = await client.client.listTools(undefined, { cacheMode: 'refresh' });
      expect(tools.map(({ name }) => name)).toContain('late');
      await client.close();
      await app.settled({ readers: 0, subscriptions: 0, openResponses: 0 });
    });

    it('an official client of an endpoint that serves both eras cancels a call, which reaches the handler, and goes on', async () => {
      const abort = new AbortController();
      const begun = new Promise<void>((resolve) => {
        client.call('forever', {}, { signal: abort.signal, onprogress: () => resolve() }).catch((error: unknown) => {
          failure = error;
        });
      });
      let failure: unknown;
      await begun;
      await app.settled({ inFlight: 1 });
      abort.abort('enough');
      await app.settled({ inFlight: 0 });
      await eventually(() => expect([unsubscribed, failure !== undefined]).toEqual([1, true]));
      expect(textOf(await client.call('who'))).toContain('anna');
    });
  });

  it('all official clients are served at once, each with its own principal', async () => {
    const app = await start();
    const users = ['anna', 'bert', 'cleo', 'dora'];
    const connected = await Promise.all(
      OFFICIAL_KINDS.map(async ({ connect }, n) => {
        const client = await connect(app, as(users[n]!));
        clients.push(client);
        return client;
      }),
    );
    const said = await Promise.all(
      Array.from({ length: 32 }, async (_, n) => textOf(await connected[n % 4]!.call('who'))),
    );
    for (const [n, text] of said.entries()) {
      const session = connected[n % 4]!.era === 'modern' ? 'without a session' : 'in a session';
      expect(text).toBe(`${users[n % 4]}, ${session}`);
    }
    await app.settled({ sessions: 2, inFlight: 0 });
    for (const client of connected) await client.close();
    await app.service.terminateAll();
  });
});
