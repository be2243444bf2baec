import { InMemoryEventStore } from 'nestjs-mcp-streamable/stores';
import { redisBackend, type RedisMessageBus } from 'nestjs-mcp-streamable/redis';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { expect, it } from 'vitest';
import { describeRedis, sharedRedis } from '../support/redis.js';

it('the event store in memory reports how many bytes the log of one session has', async () => {
  const store = new InMemoryEventStore({}, new ManualClock());
  await store.open('one');
  await store.open('two');
  await store.append('one', '0', ['{"jsonrpc":"2.0"}'], { writer: 'w', seq: 1 });
  expect([store.sizeOf('one'), store.sizeOf('two'), store.sizeOf('none')]).toEqual([34, 0, 0]);
  expect((await store.stats()).bytes).toBe(34);
  await store.drop('one');
});

describeRedis('the bus on Redis', () => {
  it('the bus on Redis lists the nodes that are alive', async () => {
    const { url } = await sharedRedis();
    const prefix = `nodes-${process.pid}`;
    const [one, other] = [1, 2].map(() => redisBackend(url, { prefix }).messageBus as RedisMessageBus);
    const ids = [one!.nodeId, other!.nodeId];
    expect(await one!.nodes()).toEqual([ids[0]]);
    await Promise.all([one!.connected(), other!.connected()]);
    expect(new Set(await one!.nodes())).toEqual(new Set(ids));
    await other!.close();
    expect(await one!.nodes()).toEqual([ids[0]]);
    await one!.close();
  });
});
