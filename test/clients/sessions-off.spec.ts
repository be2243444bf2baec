import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { eventually, testApps } from '../support/test-apps.js';
import { OFFICIAL_KINDS, textOf, type Official } from '../support/official-kinds.js';
import { as } from '../support/users.js';
import { SERVED } from '../legacy/sessions-off.tools.js';

const FORM_ANSWER = { action: 'accept', content: { name: 'Ann' } };

/** Row S17, with the clients that people have. */
describe.each(ONE_ADAPTER)('official clients of an endpoint without sessions, on %s', (adapter) => {
  const start = testApps(adapter, { sessions: 'off' });
  const clients: Official[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });

  describe.each(OFFICIAL_KINDS)('$name', ({ era, connect }) => {
    describe.each(SERVED)('with %s', (_, make) => {
      const connected = async (headers = {}) => {
        const { stage, options } = make();
        const app: TestApp = await start(options);
        const errors: unknown[] = [];
        const client = await connect(app, headers, { elicit: () => FORM_ANSWER });
        client.client.onerror = (error) => errors.push(error);
        clients.push(client);
        return { app, client, errors, stage };
      };

      it('an official client of an endpoint without sessions connects without a session, and lists', async () => {
        const { app, client, errors } = await connected(as('anna'));
        expect([client.era, client.sessionId]).toEqual([era, undefined]);
        const { tools } = await client.client.listTools();
        expect(tools.map(({ name }) => name)).toContain('echo');
        const { resources } = await client.client.listResources();
        expect(resources.map(({ uri }) => uri)).toEqual(['app://notes']);
        expect(errors).toEqual([]);
        await app.settled({ inFlight: 0, openResponses: 0, sessions: 0 });
      });

      it('calls, many at once', async () => {
        const { client } = await connected(as('anna'));
        const names = Array.from({ length: 8 }, (__, n) => `call ${n}`);
        const results = await Promise.all(names.map((name) => client.call('echo', { name })));
        expect(results.map(textOf)).toEqual(names);
      });

      it('an official client of an endpoint without sessions hears of progress', async () => {
        const { client, errors } = await connected();
        const steps: number[] = [];
        const result = await client.call('steps', {}, { onprogress: ({ progress }) => steps.push(progress) });
        expect([textOf(result), steps]).toEqual(['stepped', [1, 2]]);
        expect(errors).toEqual([]);
      });

      it('an official client of an endpoint without sessions hears of errors', async () => {
        const { client } = await connected();
        const failed = await client.call('fails');
        expect([failed.isError, textOf(failed)]).toEqual([true, 'broken']);
        const params = { uri: 'app://nowhere' };
        await expect(client.client.readResource(params)).rejects.toThrow(/not found/i);
      });

      // Revision 2026-07-28 asks by its results.
      it.runIf(era === 'legacy')(
        'an official client of an endpoint without sessions is told why it is not asked',
        async () => {
          const { client } = await connected();
          const failed = await client.call('samples');
          expect([failed.isError, textOf(failed)]).toEqual([true, expect.stringContaining('no sessions')]);
        },
      );

      it('an official client of an endpoint without sessions leaves in the middle of a call: its handler is cancelled', async () => {
        const { app, client, stage } = await connected();
        const call = client.call('waits', { name: 'a' }, { onprogress: () => {} }).catch((error: unknown) => error);
        await stage.entered('a');
        await client.close();
        await call;
        await eventually(() => expect(stage.left).toEqual(['a']));
        await app.settled({ inFlight: 0, openResponses: 0 });
      });
    });
  });
});
