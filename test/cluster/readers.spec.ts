import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { ADAPTERS } from '../support/app.js';
import type { SseStream } from '../support/http.js';
import { gists, log } from '../support/messages.js';
import { at, Deployment, type Member } from '../support/nodes.js';
import type { RawClient } from '../support/raw-client.js';
import { eventually } from '../support/running-apps.js';

const KEEP_ALIVE_MS = 15_000;

describe.each(ADAPTERS)('G7: readers of one stream on several nodes on %s', (adapter) => {
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
  /** The same, when the reader before does not say that it is silent: after a second nobody waits for that. */
  const listenAnyway = async (node: Member): Promise<SseStream> => {
    const listening = listen(node);
    const aMoment = () => clock.advance(100).then(() => undefined);
    for (;;) {
      const opened = await Promise.race([listening, aMoment()]);
      if (opened) return opened;
    }
  };
  const heads = () => deployment.eventStore.describe(client.sessionId!, '0');
  /** What the log believes: how many there are, and on which node the newest is. */
  const believed = async (readers: number, newest: Member | undefined): Promise<void> => {
    await eventually(async () => {
      const head = await heads();
      expect([head?.readers, head?.newest?.node]).toEqual([readers, newest?.bus.nodeId]);
    });
    await clock.advance(0);
  };
  const words = (...streams: SseStream[]) => streams.map(({ messages }) => gists(messages));
  const gone = (...streams: SseStream[]): void => {
    for (const stream of streams) stream.destroy();
  };

  it('G7: the newest has each message, the older one is silent, and goes on when the newer closes', async () => {
    const first = await listen(a!);
    await tell(b!, '1');
    await first.count(1);
    await clock.advance(KEEP_ALIVE_MS);
    const second = await listen(b!);
    await believed(2, b);
    await tell(a!, '2');
    await tell(b!, '3');
    await tell(c!, '4');
    await second.count(3);
    const comments = first.comments.length;
    await clock.advance(KEEP_ALIVE_MS);
    await first.until(({ comments: { length } }) => length > comments);
    expect(words(first, second)).toEqual([['1'], ['2', '3', '4']]);
    second.destroy();
    await believed(1, a);
    await tell(c!, '5');
    await tell(a!, '6');
    await first.count(3);
    expect(words(first)).toEqual([['1', '5', '6']]);
    expect(first.ended).toBeUndefined();
    gone(first);
  });

  it('G7: what was sent between the end of the newer and the turn of the older is lost to nobody', async () => {
    const first = await listen(a!);
    const second = await listen(b!);
    await believed(2, b);
    await tell(c!, '1');
    await second.count(1);
    // The log does not hear that the newer one has gone.
    b!.backend.refuse('detach');
    second.destroy();
    await b!.app.settled({ readers: 0 });
    await tell(c!, '2', '3');
    await clock.advance(60_000);
    expect(words(first)).toEqual([[]]);
    b!.backend.back();
    await clock.advance(2_000);
    await first.count(2);
    expect(words(first)).toEqual([['2', '3']]);
    gone(first);
  });

  it('G7: turns go around several nodes, whoever leaves first', async () => {
    const streams = [await listen(a!), await listen(b!), await listen(c!), await listen(a!)];
    await believed(4, a);
    await tell(c!, '1');
    await streams[3]!.count(1);
    gone(streams[1]!);
    await believed(3, a);
    gone(streams[3]!);
    await believed(2, c);
    await tell(a!, '2');
    await streams[2]!.count(1);
    gone(streams[2]!);
    await believed(1, a);
    await tell(b!, '3');
    await streams[0]!.count(1);
    expect(words(...streams)).toEqual([['3'], [], ['2'], ['1']]);
    gone(streams[0]!);
  });

  it('G7: signals about turns may be lost: the next keep-alive finds out, and repeats nothing', async () => {
    const first = await listen(a!);
    await tell(c!, '1');
    await first.count(1);
    await clock.advance(KEEP_ALIVE_MS);
    a!.bus.fate = ({ type }) => (type === 'turned' ? 'lost' : 'arrives');
    const second = await listenAnyway(b!);
    await believed(2, b);
    await clock.advance(KEEP_ALIVE_MS);
    await tell(b!, '2');
    await tell(a!, '3');
    await second.count(2);
    expect(words(first, second)).toEqual([['1'], ['2', '3']]);
    second.destroy();
    await believed(1, a);
    await tell(c!, '4');
    await clock.advance(KEEP_ALIVE_MS);
    await first.count(2);
    expect(words(first)).toEqual([['1', '4']]);
    gone(first);
  });

  it('G7: a turn that comes late does not take the stream from the newest for good', async () => {
    const first = await listen(a!);
    a!.bus.fate = ({ type }) => (type === 'turned' ? 'late' : 'arrives');
    const second = await listenAnyway(b!);
    await believed(2, b);
    gone(second);
    await believed(1, a);
    // First that the newer has left, then that it has come.
    a!.bus.deliverLate();
    a!.bus.heal();
    await tell(c!, '1');
    await clock.advance(KEEP_ALIVE_MS);
    await first.count(1);
    expect(words(first)).toEqual([['1']]);
    gone(first);
  });

  it('G7: a reader of which the log could not be told is the newest once it can', async () => {
    const first = await listen(a!);
    b!.backend.refuse('attach');
    const second = await listenAnyway(b!);
    await clock.advance(40_000);
    await tell(a!, '1');
    await first.count(1);
    b!.backend.back();
    await clock.advance(2 * KEEP_ALIVE_MS);
    await believed(2, b);
    await tell(a!, '2');
    await tell(c!, '3');
    await second.until(({ messages }) => gists(messages).includes('3'));
    expect(words(first)).toEqual([['1']]);
    expect(words(second)[0]!.slice(-2)).toEqual(['2', '3']);
    gone(first, second);
  });

  it('G7: readers of which the log knows nothing any more are found again', async () => {
    const first = await listen(a!);
    await believed(1, a);
    await deployment.eventStore.detachNode(a!.bus.nodeId);
    await tell(c!, '1');
    await clock.advance(KEEP_ALIVE_MS);
    await first.count(1);
    await believed(1, a);
    await tell(c!, '2');
    await first.count(2);
    expect(words(first)).toEqual([['1', '2']]);
    gone(first);
  });

  it('G7: a node that dies with the newest reader gives the turn back', async () => {
    const first = await listen(a!);
    const second = await listen(b!);
    await believed(2, b);
    await tell(c!, '1', '2');
    await second.count(2);
    await clock.advance(KEEP_ALIVE_MS);
    deployment.kill(b!);
    await deployment.bury(b!);
    await believed(1, a);
    await tell(c!, '3');
    await first.count(1);
    expect(words(first)).toEqual([['3']]);
    gone(first);
  });

  it('G7: a node that stops gives the turn back at once', async () => {
    const first = await listen(a!);
    const second = await listen(b!);
    await believed(2, b);
    await tell(c!, '1');
    await second.count(1);
    await deployment.stop(b!);
    expect(await second.end()).toBe('end');
    await believed(1, a);
    await tell(c!, '2');
    await first.count(1);
    expect(words(first)).toEqual([['2']]);
    gone(first);
  });

  it('G7: a GET without a cursor is not handed what an open response on another node has got', async () => {
    const first = await listen(a!);
    await tell(c!, '1', '2');
    await first.count(2);
    const second = await listen(b!);
    // Where it goes on: what it was not handed it cannot ask for again.
    expect(second.primes).toEqual(['0_2']);
    await tell(c!, '3');
    const third = await listen(c!);
    await tell(a!, '4');
    await third.count(1);
    expect(words(first, second, third)).toEqual([['1', '2'], ['3'], ['4']]);
    gone(first, second, third);
  });

  it('G7: one that names its cursor is handed all that follows, but not before the older response is silent', async () => {
    const first = await listen(a!);
    await tell(c!, '1', '2');
    await first.count(2);
    a!.bus.fate = ({ type }) => (type === 'turned' ? 'late' : 'arrives');
    const response = at(b!.app, client).get('0_1');
    await believed(2, b);
    const second = (await response).sse();
    expect([second.body, words(second)]).toEqual(['', [[]]]);
    a!.bus.deliverLate();
    await second.count(1);
    expect([second.primes, words(second)]).toEqual([['0_1'], [['2']]]);
    gone(first, second);
  });

  it('G7: of a response that has left meanwhile the log knows how far it came', async () => {
    const first = await listen(a!);
    await tell(c!, '1', '2');
    await first.count(2);
    // The log still believes that it is there.
    a!.backend.refuse('detach');
    gone(first);
    await a!.app.settled({ readers: 0 });
    const second = await listen(b!);
    expect(second.primes).toEqual(['0_2']);
    a!.backend.back();
    await clock.advance(2_000);
    await believed(1, b);
    gone(second);
  });

  it('G7: a node that was thought dead lets its readers be silent while there are newer ones', async () => {
    const first = await listen(a!);
    deployment.kill(a!);
    await believed(0, undefined);
    const second = await listen(b!);
    await tell(c!, '1');
    await second.count(1);
    await clock.advance(KEEP_ALIVE_MS);
    expect(words(first, second)).toEqual([[], ['1']]);
    gone(second);
    await believed(0, undefined);
    await tell(c!, '2');
    await clock.advance(KEEP_ALIVE_MS);
    await first.count(1);
    expect(words(first)).toEqual([['2']]);
    gone(first);
  });
});
