import { filter, firstValueFrom } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DocsNotifier } from '../../examples/quickstart/docs-notifier.service.js';
import { gate } from '../support/app.js';
import { Proxy } from '../support/proxy.js';
import {
  CHOICE,
  notified,
  OFFICIAL_CLIENTS,
  SUMMARY,
  type OfficialClient,
  type Received,
} from '../support/official-clients.js';
import { ADAPTERS, FILES, QuickstartApp } from './quickstart-app.js';

const NAMES = ['README.md', 'docs/guide.md', 'notes.md'];
/** Behind the documents. */
const SKILL = 'answer-from-docs';
const NONE = 'There is no document';
const FOUND =
  'README.md:3 (Read me): A needle in the readme.\ndocs/guide.md:3 (Guide): Nothing here. Needle at the end.';

describe.each(ADAPTERS)('the quickstart on %s', (adapter) => {
  describe.each(OFFICIAL_CLIENTS)('serves $name', ({ connect }) => {
    let app: QuickstartApp;
    let client: OfficialClient;

    beforeEach(async () => {
      app = await QuickstartApp.start(adapter);
      client = await connect(app.url);
    });

    afterEach(async () => {
      if (client.sessionId) await client.terminate();
      await client.close();
      await app.expectNothingLeft();
      await app.close();
    });

    it('the quickstart lists tools and resources', async () => {
      expect(await client.tools()).toEqual(['search_docs', 'read_doc', 'watch_docs', 'choose_doc', 'summarize_doc']);
      expect((await client.resources()).map(({ name }) => name)).toEqual([...NAMES, SKILL]);
    });

    it('the quickstart reads a resource, as it is at that moment', async () => {
      const { uri } = (await client.resources()).find(({ name }) => name === 'docs/guide.md')!;
      expect(await client.read(uri)).toBe(FILES['docs/guide.md']);
      await app.write('docs/guide.md', 'Changed.');
      expect(await client.read(uri)).toBe('Changed.');
      expect(await client.call('read_doc', { name: 'docs/guide.md' })).toBe('Changed.');
    });

    it('the quickstart refuses what is not one of the documents', async () => {
      for (const [uri, message] of [
        ['docs:///secret.md', NONE],
        ['docs:///..%2Fsecret.md', 'Resource not found'],
        ['docs:///%E0%A4', 'Resource not found'],
      ] as const) {
        await expect(client.read(uri)).rejects.toMatchObject({
          message: expect.stringContaining(message),
          data: { uri },
        });
      }
      expect(await client.call('read_doc', { name: '../secret.md' })).toContain(NONE);
    });

    it('the quickstart reports progress, in order', async () => {
      const steps: unknown[] = [];
      const found = await client.call('search_docs', { query: 'NEEDLE' }, { onprogress: (step) => steps.push(step) });
      expect(found).toBe(FOUND);
      expect(steps).toEqual(NAMES.map((message, index) => ({ progress: index + 1, total: 3, message })));
    });

    it('the quickstart stops a search that is cancelled', async () => {
      app.index.hold = new Promise(() => {});
      const held = firstValueFrom(app.index.held$);
      const left = firstValueFrom(app.index.left$);
      const controller = new AbortController();
      const call = client.call('search_docs', { query: 'needle' }, { signal: controller.signal });
      const outcome = call.catch((error: unknown) => error);
      await held;
      controller.abort();
      await left;
      expect(await outcome).toBeInstanceOf(Error);
      await expect.poll(async () => (await app.sessions.counts()).inFlight).toBe(0);
    });

    it('the quickstart asks the user', async () => {
      expect(await client.call('choose_doc')).toBe(FILES[CHOICE]);
    });

    it('the quickstart asks the model', async () => {
      expect(await client.call('summarize_doc', { name: 'notes.md' })).toBe(SUMMARY);
    });

    it('the quickstart tells of files that change, come and go', async () => {
      await client.call('watch_docs');
      const updated = notified(client, 'notifications/resources/updated');
      await app.write('docs/guide.md', 'Changed, and longer than before.');
      expect((await updated).params).toEqual({ uri: 'docs:///docs/guide.md' });
      for (const change of [() => app.write('new.md', 'New.'), () => app.remove('new.md')]) {
        const told = notified(client, 'notifications/resources/list_changed');
        await change();
        await told;
      }
      expect((await client.resources()).map(({ name }) => name)).toEqual([...NAMES, SKILL]);
    });

    it('the quickstart tells those who subscribed to a document, of that one only', async () => {
      await client.subscribe('docs:///notes.md');
      const updated = notified(client, 'notifications/resources/updated');
      await app.write('README.md', 'Changed, and longer than the readme was before.');
      await app.write('notes.md', 'Changed, and longer than before.');
      expect((await updated).params).toEqual({ uri: 'docs:///notes.md' });
    });

    it('the quickstart proposes the names of documents', async () => {
      expect(await client.complete('docs:///{+name}', 'name', 'gui')).toEqual(['docs/guide.md']);
    });

    it('the quickstart forgets who watches when the session ends', async () => {
      await client.call('watch_docs');
      const { listeners } = app.app.get(DocsNotifier, { strict: false });
      expect([...listeners]).toEqual([client.sessionId]);
      await client.terminate();
      await expect.poll(() => listeners.size).toBe(0);
    });

    it('the quickstart ends a session for good when it is told to', async () => {
      const { sessionId } = client;
      await client.terminate();
      expect(client.answers.at(-1)).toEqual({ method: 'DELETE', status: 204 });
      const headers = {
        'Content-Type': 'application/json',
        Accept: 'application/json, text/event-stream',
        'Mcp-Session-Id': sessionId!,
      };
      const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
      const response = await fetch(app.url, { method: 'POST', headers, body });
      expect(response.status).toBe(404);
      await response.text();
      const next = await connect(app.url);
      expect(next.sessionId).not.toBe(sessionId);
      expect(await next.tools()).toContain('search_docs');
      await next.terminate();
      await next.close();
    });

    it('the quickstart brings every progress report and the answer once, over a connection that is cut', async () => {
      const proxy = await Proxy.start(app.url);
      const far = await connect(proxy.url);
      const { promise, open: release } = gate();
      app.index.hold = promise;
      const answers: Received[] = [];
      far.received$.pipe(filter(({ result }) => result !== undefined)).subscribe((answer) => answers.push(answer));
      const steps: number[] = [];
      await expect.poll(async () => (await app.sessions.counts()).readers).toBe(2);
      const cut = proxy.cutAfter('"progress":1');
      const call = far.call('search_docs', { query: 'needle' }, { onprogress: ({ progress }) => steps.push(progress) });
      await cut;
      release();
      expect(await call).toBe(FOUND);
      expect(steps).toEqual([1, 2, 3]);
      expect(answers).toHaveLength(1);
      // The standalone stream, and after the cut both streams, once each: nobody comes back for ever.
      const gets = far.answers.filter(({ method }) => method === 'GET');
      expect(gets.map(({ status }) => status)).toEqual([200, 200, 200]);
      await far.terminate();
      await far.close();
      await proxy.close();
    });
  });
});
