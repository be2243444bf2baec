import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ONE_ADAPTER, TestApp } from '../support/app.js';
import { RecordedLog } from '../support/recorded-log.js';
import { CASES } from './cases.js';
import { LEGACY_CASES } from './cases.legacy.js';
import { DIFFERENCES, isIn, listedFor } from './differences.js';
import { NodeBridge } from './node-bridge.js';
import { OUR_PROVIDERS } from './our-handlers.js';
import { casesOfParams, methodsOf } from './params.js';
import { compare, compareAll, Peer, requestsOf } from './peers.js';
import { sdkHandler } from './sdk-server.js';
import { SERVER_INFO } from './served.js';

const PARAMS = casesOfParams('modern');
const ROWS = [...CASES, ...PARAMS];
const listed = listedFor('modern', ROWS);

/**
 * The same requests to our endpoint and to the SDK's own (`createMcpHandler`), with handlers that do the same: the same
 * status, media type, code and result, or the difference is listed in differences.ts with its reason. One that is listed and
 * no longer there fails too.
 */
describe('the differential table', () => {
  const ofEra = {
    modern: ROWS,
    legacy: [...LEGACY_CASES, ...casesOfParams('legacy')],
  };

  it('the differential table has at least 600 requests, each case with a title of its own', () => {
    expect(requestsOf(ROWS)).toBeGreaterThanOrEqual(600);
    expect(new Set(ROWS.map(({ title }) => title)).size).toBe(ROWS.length);
  });

  it('the differential table lists each difference once, with a reason, and of a case that exists', () => {
    for (const era of ['modern', 'legacy'] as const) {
      const differences = DIFFERENCES.filter((each) => each.era === undefined || each.era === era);
      const named = differences.flatMap(({ cases = {} }) => Object.keys(cases));
      expect(new Set(named).size).toBe(named.length);
    }
    for (const { era, cases = {}, every, why } of DIFFERENCES) {
      const rows = era ? ofEra[era] : Object.values(ofEra).flat();
      const titles = new Set(rows.map(({ title }) => title));
      expect(Object.keys(cases).filter((title) => !titles.has(title))).toEqual([]);
      expect(every === undefined || rows.some((row) => isIn(every, row))).toBe(true);
      expect(why).not.toBe('');
    }
  });
});

describe.each(ONE_ADAPTER)('as the SDK serves revision 2026-07-28, on %s', (adapter) => {
  let app: TestApp;
  let sdk: NodeBridge;
  let log: RecordedLog;
  let peers: [Peer, Peer];

  beforeAll(async () => {
    const module = { providers: OUR_PROVIDERS };
    // A clock that stands still: no answer becomes a stream because the machine is slow.
    const clock = new ManualClock();
    app = await TestApp.start({ adapter, clock, module, server: undefined, serverInfo: SERVER_INFO, eras: 'modern' });
    const handler = sdkHandler();
    sdk = await NodeBridge.start((request) => handler.fetch(request));
    peers = [new Peer(app.url, 'modern'), new Peer(sdk.url, 'modern')];
    // What handlers throw is reported to the operator; here it is meant.
    log = new RecordedLog().attach(app.app);
  });

  afterAll(async () => {
    await sdk.close();
    await app.app.close();
    log.release();
  });

  it.each(CASES.map((row) => [row.title, row] as const))('%s', async (_, row) => {
    expect(await compare(peers, row, listed)).toBeUndefined();
    await app.settled({ inFlight: 0, subscriptions: 0, openResponses: 0 });
  });

  it.each(methodsOf(PARAMS))('D5: %s, with each field of its parameters as it should not be', async (_, rows) => {
    expect(await compareAll(peers, rows, listed)).toEqual([]);
  });

  it('leaves nothing behind', () => app.expectNothingLeft());
});
