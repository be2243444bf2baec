import { isLegacyRequest } from '@modelcontextprotocol/server';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { ONE_ADAPTER, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { RecordedLog } from '../support/recorded-log.js';
import { CASES } from './cases.js';
import type { Case } from './case.js';
import { NodeBridge } from './node-bridge.js';
import { OUR_PROVIDERS } from './our-handlers.js';
import { differenceOf, outcomesOf } from './outcome.js';
import { SERVER_INFO } from './served.js';

const LEGACY = 204;
/** Behaviour §0: legacy, whatever its headers. */
const HANDSHAKE = ['versions: a handshake with a modern header', ['200 complete', '400 -32022']];

/**
 * The table of the differential test once more: what the SDK does not take for a request of the legacy era, an endpoint of
 * both eras answers as one of the modern era does.
 */
describe.each(ONE_ADAPTER)('the eras of the differential table, on %s', (adapter) => {
  let both: TestApp;
  let modern: TestApp;
  let sdk: NodeBridge;
  let log: RecordedLog;

  const start = (eras: 'both' | 'modern'): Promise<TestApp> =>
    TestApp.start({
      adapter,
      eras,
      clock: new ManualClock(),
      serverInfo: SERVER_INFO,
      server: undefined,
      module: { providers: OUR_PROVIDERS },
    });

  beforeAll(async () => {
    [both, modern] = [await start('both'), await start('modern')];
    // Its status says so, since HEAD has no body.
    sdk = await NodeBridge.start(
      async (request) => new Response(null, { status: (await isLegacyRequest(request)) ? LEGACY : 200 }),
    );
    log = new RecordedLog().attach(both.app);
  });

  afterAll(async () => {
    await Promise.all([sdk.close(), both.app.close(), modern.app.close()]);
    log.release();
  });

  async function isLegacy({ steps: [first] }: Case): Promise<boolean> {
    const response = await send(sdk.url, first!(undefined));
    await response.text();
    return response.status === LEGACY;
  }

  it('§0: a request that is not legacy is answered as if there were one era', async () => {
    const different: unknown[] = [];
    let compared = 0;
    for (const row of CASES) {
      if (await isLegacy(row)) continue;
      compared++;
      const difference = differenceOf(await outcomesOf(both.url, row), await outcomesOf(modern.url, row));
      if (difference !== undefined) different.push([row.title, difference]);
    }
    expect(different.filter((each) => !isOfSupported(each))).toEqual([HANDSHAKE]);
    expect(compared).toBeGreaterThan(CASES.length / 2);
  });

  it('the differential test of the eras leaves nothing behind', async () => {
    await both.expectNothingLeft();
    await modern.expectNothingLeft();
  });
});

/** An endpoint of both eras names more revisions, naturally. */
function isOfSupported(each: unknown): boolean {
  const [, difference] = each as [string, unknown];
  return (
    typeof difference === 'string' &&
    /^(?:messages\.0\.(?:error\.data|result)\.supported(?:Versions)?\.\d+(?:, )?)+$/.test(difference)
  );
}
