import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { TestApp } from '../support/app.js';
import { RecordedLog } from '../support/recorded-log.js';
import { LEGACY_CASES } from './cases.legacy.js';
import { listedFor } from './differences.js';
import { NodeBridge } from './node-bridge.js';
import { OUR_PROVIDERS } from './our-handlers.js';
import { casesOfParams, methodsOf } from './params.js';
import { compare, compareAll, Peer, requestsOf } from './peers.js';
import { sdkSessions } from './sdk-server.js';
import { SERVER_INFO } from './served.js';

const PARAMS = casesOfParams('legacy');
const ROWS = [...LEGACY_CASES, ...PARAMS];
const listed = listedFor('legacy', ROWS);

/**
 * The same requests in sessions of revision 2025-11-25, to our endpoint and to the SDK's own transport with an `McpServer`
 * per session: as in modern.spec.ts. A session is asked questions, and answers them.
 */
describe('as the SDK serves revision 2025-11-25, with sessions', () => {
  let app: TestApp;
  let sdk: NodeBridge;
  let log: RecordedLog;
  let peers: [Peer, Peer];

  beforeAll(async () => {
    app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      serverInfo: SERVER_INFO,
      maxSessionsPerPrincipal: Infinity,
      module: { providers: OUR_PROVIDERS },
    });
    sdk = await NodeBridge.start(sdkSessions());
    peers = [new Peer(app.url, 'legacy'), new Peer(sdk.url, 'legacy')];
    // What handlers throw is reported to the operator; here it is meant.
    log = new RecordedLog().attach(app.app);
  });

  afterAll(async () => {
    await sdk.close();
    await app.app.close();
    log.release();
  });

  it('is compared by at least 600 requests, each with a title of its own', () => {
    expect(requestsOf(ROWS)).toBeGreaterThanOrEqual(600);
    expect(new Set(ROWS.map(({ title }) => title)).size).toBe(ROWS.length);
  });

  it.each(LEGACY_CASES.map((row) => [row.title, row] as const))('%s', async (_, row) => {
    expect(await compare(peers, row, listed)).toBeUndefined();
  });

  it.each(methodsOf(PARAMS))('D5: %s, with each field of its parameters as it should not be', async (_, rows) => {
    expect(await compareAll(peers, rows, listed)).toEqual([]);
  });

  it('leaves nothing behind', () => app.expectNothingLeft());
});
