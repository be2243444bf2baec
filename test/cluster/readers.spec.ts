import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/app.js';
import type { SseStream } from '../support/http.js';
import { gists, log } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually } from '../support/test-apps.js';

const KEEP_ALIVE_MS = 15_000;

describe.each(ONE_ADAPTER)('G7: readers of one stream on several nodes on %s', (adapter) => {
  let deployment: Deployment;
  let clock: ManualClock;
  let [a, b, c]: Member[] = [];
  let client: RawClient;

  beforeEach(async () => {
    clock = new ManualClock();
    deployment = new Deployment(clock);
    const start = () => deployment.member({ adapter, keepAliveMs: KEEP_ALIVE_MS });
    [a, b, c] = [await start(), await start(), await start()];
    client = await a.app.client().initialize();
  });
  afterEach(() => deployment.close());

  const tell = async (node: Member, ...words: string[]): Promise<void> => {
    for (const word of words) await node.app.service.notify(client.sessionId!, log(word));
  };
  const listen = (node: Member, lastEventId?: string) => at(node.app, client).listen(lastEventId);
  /** On which node the log believes the reader to be. */
  const believed = async (newest: Member | undefined): Promise<void> => {
    await eventually(async () => {
      const { reader } = await deployment.eventStore.read(client.sessionId!, '0', 0, 0);
      expect(reader?.node).toEqual(newest?.bus.nodeId);
    });
    await clock.advance(0);
  };
  const words = (...streams: SseStream[]) => streams.map(({ messages }) => gists(messages));
  const gone = (...streams: SseStream[]): void => {
    for (const stream of streams) stream.destroy();
  };

  it('G7: the newest reader gets each message; the one before it gets none, and ends at its next tick with the position of the stream', async () => {
    const first = await listen(a!);
    await tell(b!, '1');
    await first.count(1);
    const second = await listen(b!, '0_1');
    await believed(b);
    await tell(a!, '2');
    await tell(b!, '3');
    await tell(c!, '4');
    await second.count(3);
    expect(words(first, second)).toEqual([['1'], ['2', '3', '4']]);
    expect(first.ended).toBeUndefined();
    await clock.advance(KEEP_ALIVE_MS);
    expect(await first.end()).toBe('end');
    // What was handed out last is known to the log at the next read or tick of its node.
    expect(['0_3', '0_4']).toContain(first.primes.at(-1));
    expect(second.ended).toBeUndefined();
    gone(second);
    await believed(undefined);
  });

  it('G7: the reader before it ends at once when the newest leaves, and its client continues from there', async () => {
    const first = await listen(a!);
    const second = await listen(b!);
    await believed(b);
    await tell(c!, '1', '2');
    await second.count(2);
    gone(second);
    expect(await first.end()).toBe('end');
    expect([first.primes.at(-1), words(first)]).toEqual(['0_2', [[]]]);
    await tell(c!, '3');
    const back = await (await listen(c!, first.primes.at(-1))).count(1);
    expect(words(back)).toEqual([['3']]);
    gone(back);
  });

  it('G7: messages that are sent between two readers are not lost', async () => {
    const first = await listen(a!);
    await tell(c!, '1');
    await first.count(1);
    // The log does not hear that it has gone.
    a!.backend.refuse('release');
    gone(first);
    await a!.app.settled({ readers: 0 });
    await tell(c!, '2', '3');
    const second = await (await listen(b!, '0_1')).count(2);
    expect(words(second)).toEqual([['2', '3']]);
    a!.backend.back();
    await clock.advance(2_000);
    await believed(b);
    gone(second);
  });

  it('G7: of readers on several nodes one is left after a tick', async () => {
    const streams = [await listen(a!), await listen(b!), await listen(c!), await listen(a!)];
    await believed(a);
    await tell(c!, '1');
    await streams[3]!.count(1);
    await clock.advance(KEEP_ALIVE_MS);
    for (const stream of streams.slice(0, 3)) expect(await stream.end()).toBe('end');
    expect(words(...streams)).toEqual([[], [], [], ['1']]);
    expect(streams[3]!.ended).toBeUndefined();
    gone(streams[3]!);
  });

  it('G7: a replaced reader whose signal was lost gets no message of its own node, and ends at its tick', async () => {
    const first = await listen(a!);
    await tell(c!, '1');
    await first.count(1);
    a!.bus.fate = ({ type }) => (type === 'replaced' ? 'lost' : 'arrives');
    const second = await listen(b!, '0_1');
    await believed(b);
    await tell(a!, '2');
    await second.count(1);
    await clock.advance(KEEP_ALIVE_MS);
    expect(await first.end()).toBe('end');
    expect(words(first, second)).toEqual([['1'], ['2']]);
    gone(second);
  });

  it('G7: a late signal does not replace the newest reader', async () => {
    const first = await listen(a!);
    a!.bus.fate = ({ type }) => (type === 'replaced' ? 'late' : 'arrives');
    const second = await listen(b!);
    await believed(b);
    const third = await listen(a!);
    await believed(a);
    a!.bus.deliverLate();
    a!.bus.heal();
    await tell(c!, '1');
    await third.count(1);
    await clock.advance(KEEP_ALIVE_MS);
    expect([await first.end(), await second.end(), third.ended]).toEqual(['end', 'end', undefined]);
    expect(words(first, second, third)).toEqual([[], [], ['1']]);
    gone(third);
  });

  it('G11: a response that could not be registered in the log waits for that, and is the newest then', async () => {
    const first = await listen(a!);
    b!.backend.refuse('claim');
    const opening = listen(b!);
    await tell(a!, '1');
    await first.count(1);
    b!.backend.back();
    await clock.advance(1_000);
    const second = await opening;
    await clock.advance(2 * KEEP_ALIVE_MS);
    await believed(b);
    await tell(c!, '2');
    await second.until(({ messages }) => gists(messages).includes('2'));
    expect(words(first)).toEqual([['1']]);
    gone(first, second);
  });

  it('G7: a reader that the log has lost is registered again', async () => {
    const first = await listen(a!);
    await believed(a);
    const { reader } = await deployment.eventStore.read(client.sessionId!, '0', 0, 0);
    await deployment.eventStore.release(client.sessionId!, '0', reader!);
    await tell(c!, '1');
    await clock.advance(KEEP_ALIVE_MS);
    await first.count(1);
    await believed(a);
    await tell(c!, '2');
    await first.count(2);
    expect(words(first)).toEqual([['1', '2']]);
    gone(first);
  });

  it('G7: a client whose reader dies with its node resumes on another one', async () => {
    const first = await listen(b!);
    await believed(b);
    await tell(c!, '1', '2');
    await first.count(2);
    deployment.kill(b!);
    await deployment.bury(b!);
    await tell(c!, '3');
    const second = await (await listen(a!, '0_2')).count(1);
    await believed(a);
    expect(words(second)).toEqual([['3']]);
    gone(second);
  });

  it('G7: a node that stops removes its reader from the log', async () => {
    const first = await listen(b!);
    await believed(b);
    await tell(c!, '1');
    await first.count(1);
    await deployment.stop(b!);
    expect(await first.end()).toBe('end');
    await believed(undefined);
    await tell(c!, '2');
    const second = await (await listen(a!)).count(1);
    expect([second.primes, words(second)]).toEqual([['0_1'], [['2']]]);
    gone(second);
  });

  it('G7: a GET without a cursor gets no message again that an open response on another node got before its last tick', async () => {
    const first = await listen(a!);
    await tell(c!, '1', '2');
    await first.count(2);
    await clock.advance(KEEP_ALIVE_MS);
    const second = await listen(b!);
    expect(second.primes).toEqual(['0_2']);
    await tell(c!, '3');
    await second.count(1);
    expect(words(first, second)).toEqual([['1', '2'], ['3']]);
    gone(first, second);
  });
});
