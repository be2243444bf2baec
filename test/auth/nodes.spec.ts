import { UnauthorizedError } from '@modelcontextprotocol/client';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import { registryOf } from '../support/test-apps.js';
import { describeRedis } from '../support/redis.js';
import { authorizingClients, Notes, textOf } from './official-flow.js';
import { asker, authorizationServer, bearer, ERAS, protectedApps } from './protected-apps.js';

describeRedis('two nodes on Redis, with requests spread over them', () => {
  beforeEach(() => void vi.stubEnv('NODES', '2'));
  afterEach(() => void vi.unstubAllEnvs());

  describe.each(ONE_ADAPTER)('on %s', (adapter) => {
    const idp = authorizationServer();
    const start = protectedApps(adapter, idp, { providers: [Notes], auth: { requiredScopes: ['notes:read'] } });
    const authorize = authorizingClients();

    it.each(ERAS)('A1, A2, A7: 401, metadata, token, step-up, wider token, served (%s)', async (era) => {
      const app = await start();
      expect(app.nodes).toHaveLength(2);
      const { client, agree } = await authorize(() => app, era);
      for (let times = 0; times < 4; times++) {
        expect(textOf(await client.callTool({ name: 'read' }))).toBe(`notes:read as ${idp().issuer}|ann`);
      }
      await expect(client.callTool({ name: 'write' })).rejects.toThrow(UnauthorizedError);
      await agree();
      for (let times = 0; times < 4; times++) {
        expect(textOf(await client.callTool({ name: 'write' }))).toBe('written');
      }
      await client.close();
    });

    it("A11, A13: a session is its owner's on each node, and each request has what its token allows", async () => {
      const app = await start();
      const headers = await bearer(idp(), 'notes:read');
      const { request } = await asker(app, 'legacy', headers);
      const [wider, stranger] = [
        await bearer(idp(), 'notes:read notes:write'),
        await bearer(idp(), 'notes:read', { sub: 'bob' }),
      ];
      const write = { name: 'write', arguments: {} };
      for (let times = 0; times < 4; times++) {
        expect((await request('tools/call', write)).status).toBe(403);
        expect((await request('tools/call', write, wider)).status).toBe(200);
        expect((await request('tools/call', write, stranger)).status).toBe(404);
        expect((await request('tools/call', write, { authorization: '' })).status).toBe(401);
      }
    });

    it('A13: a stream is resumed on the other node by another token of its owner', async () => {
      const app = await start();
      const client = await app.client(await bearer(idp(), 'notes:read')).initialize();
      const stream = await client.listen();
      stream.destroy();
      await app.settled({ openResponses: 0 });
      registryOf(app).registerTool({ name: 'new', handler: () => 'new' });
      client.headers = await bearer(idp(), 'notes:read', { sub: 'bob' });
      expect((await client.get(stream.primes[0])).status).toBe(404);
      client.headers = await bearer(idp(), 'notes:read more');
      const resumed = await client.listen(stream.primes[0]);
      await resumed.count(1);
      expect(resumed.messages[0].method).toBe('notifications/tools/list_changed');
      resumed.destroy();
    });
  });
});
