import { isDeepStrictEqual } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ManualClock } from '../../src/testing/manual-clock.js';
import { ADAPTERS, TestApp } from '../support/app.js';
import { RecordedLog } from '../support/recorded-log.js';
import { CASES } from './differential/cases.js';
import { DIFFERENCES } from './differential/differences.js';
import { NodeBridge } from './differential/node-bridge.js';
import { OUR_PROVIDERS } from './differential/our-handlers.js';
import { differenceOf, outcomesOf } from './differential/outcome.js';
import { sdkHandler } from './differential/sdk-server.js';
import { SERVER_INFO } from './differential/served.js';

/**
 * The same requests to our endpoint and to the SDK's own (`createMcpHandler`), with handlers that do the same: the same
 * status, media type, code and result, or the difference is listed in differential/differences.ts with its reason. One that
 * is listed and no longer there fails too.
 */
const listed = new Map(DIFFERENCES.flatMap(({ cases }) => Object.entries(cases)));

describe('the differential table', () => {
  it('has enough cases, each with a title of its own', () => {
    const titles = CASES.map(({ title }) => title);
    expect(titles.length).toBeGreaterThanOrEqual(150);
    expect(new Set(titles).size).toBe(titles.length);
  });

  it('lists each difference once, with a reason, and of a case that exists', () => {
    const named = DIFFERENCES.flatMap(({ cases }) => Object.keys(cases));
    expect(new Set(named).size).toBe(named.length);
    expect(named.filter((title) => !CASES.some((each) => each.title === title))).toEqual([]);
    expect(DIFFERENCES.filter(({ why }) => why === '')).toEqual([]);
  });
});

describe.each(ADAPTERS)('as the SDK serves revision 2026-07-28, on %s', (adapter) => {
  let app: TestApp;
  let sdk: NodeBridge;
  let log: RecordedLog;

  beforeAll(async () => {
    const module = { providers: OUR_PROVIDERS };
    // A clock that stands still: no answer becomes a stream because the machine is slow.
    const clock = new ManualClock();
    app = await TestApp.start({ adapter, clock, module, server: undefined, serverInfo: SERVER_INFO, eras: 'modern' });
    const handler = sdkHandler();
    sdk = await NodeBridge.start((request) => handler.fetch(request));
    // What handlers throw is reported to the operator; here it is meant.
    log = new RecordedLog().attach(app.app);
  });

  afterAll(async () => {
    await sdk.close();
    await app.app.close();
    log.release();
  });

  it.each(CASES.map((row) => [row.title, row] as const))('%s', async (title, row) => {
    const ours = await outcomesOf(app.url, row);
    const sdks = await outcomesOf(sdk.url, row);
    const difference = differenceOf(ours, sdks);
    // With both answers, since what differs says little without them.
    const detail = isDeepStrictEqual(difference, listed.get(title)) ? {} : { ours, sdks };
    expect({ difference, ...detail }).toEqual({ difference: listed.get(title) });
    await app.settled({ inFlight: 0, subscriptions: 0, openResponses: 0 });
  });

  it('leaves nothing behind', () => app.expectNothingLeft());
});
