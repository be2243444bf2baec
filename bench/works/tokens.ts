import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { inParallel } from '../harness/in-parallel.js';
import { callModernAdd } from '../harness/mcp-client.js';
import { ServerProcess } from '../harness/server-process.js';
import { TOKENS } from '../harness/subjects.js';
import { cpuTimes, type Loaded, type Work } from '../harness/work.js';
import { JWT_AUDIENCE } from '../tools.js';

/** Calls, by number and not by time: most of their time is the signature's, and V8 compiles what runs often. */
const WARM_UP = 24_000;

/**
 * What a JWT (ES256) adds to a call of 2026-07-28: to ours by the option `auth`, and to a bare route by a guard that calls
 * `jose`. Keys are fetched once, from this process.
 */
export const jwt: Work = {
  name: 'jwt',
  times: 2,
  run: async (plan) => {
    if (plan.subjects.length > 0 && !plan.subjects.includes('ours-fastify')) return [];
    const idp = await issuing();
    const started: ServerProcess[] = [];
    const loaded: Loaded[] = [];
    try {
      for (const { name, file, verifies } of TOKENS) {
        const env = { ADAPTER: 'fastify', ...(verifies && { JWT_ISSUER: idp.issuer }) };
        const nodeArgs = plan.profile ? ['--cpu-prof', `--cpu-prof-dir=${plan.profile}/${name}`] : [];
        const server = await ServerProcess.start(file, env, { nodeArgs });
        started.push(server);
        // All of them read it: a header costs, too.
        const header = `Authorization: Bearer ${idp.token}\r\n`;
        const load = (count: number) =>
          inParallel(server.port, count, (connection, index) => callModernAdd(connection, '/mcp', index, header));
        loaded.push({ key: name, servers: [server], load, warmUp: plan.quick ? WARM_UP / 2 : WARM_UP });
      }
      // There are only four of them.
      const costs = await cpuTimes(loaded, { ...plan, rounds: 2 * plan.rounds });
      return [{ work: 'jwt', title: 'tools/call, 2026-07-28, with a JWT (ES256)', unit: 'µs', ...costs }];
    } finally {
      await Promise.all(started.map((server) => server.stop()));
      idp.server.close();
      idp.server.closeAllConnections();
    }
  },
};

/** An issuer whose keys are here, and a token of it. */
async function issuing(): Promise<{ server: Server; issuer: string; token: string }> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const keys = [{ ...(await exportJWK(publicKey)), kid: 'bench', alg: 'ES256', use: 'sig' }];
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keys }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const token = await new SignJWT({ scope: 'notes:read', client_id: 'bench' })
    .setProtectedHeader({ alg: 'ES256', kid: 'bench', typ: 'at+jwt' })
    .setIssuer(issuer)
    .setAudience(JWT_AUDIENCE)
    .setSubject('ann')
    .setIssuedAt()
    .setExpirationTime('2h')
    .sign(privateKey);
  return { server, issuer, token };
}
