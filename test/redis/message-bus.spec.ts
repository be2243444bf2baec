import { describe, expect, it } from 'vitest';
import { firstValueFrom } from 'rxjs';
import { messageBusContract } from 'nestjs-mcp-streamable/testing';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

describeRedis('the message bus on Redis', () => {
  messageBusContract(
    'RedisMessageBus',
    async () => {
      const room = await RedisRoom.open();
      const nodes = [room.node().messageBus, room.node().messageBus, room.node().messageBus] as const;
      await Promise.all(nodes.map((node) => node.connected()));
      const interrupt = async () => {
        const back = nodes.map((node) => firstValueFrom(node.reconnected$));
        await room.redis.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
        await room.redis.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
        await Promise.all(back);
      };
      return { nodes, interrupt, dispose: () => room.close() };
    },
    { describe, it },
  );

  it('the message bus on Redis is flushed when Redis has accepted all messages, and at once when none waits', async () => {
    const room = await RedisRoom.open();
    const [speaker, hearer] = [room.node().messageBus, room.node().messageBus];
    await Promise.all([speaker, hearer].map((node) => node.connected()));
    const heard: unknown[] = [];
    hearer.messages$.subscribe((message) => heard.push(message));
    await speaker.flushed();
    const published = async () => /cmdstat_publish:calls=(\d+)/.exec(await room.redis.admin.info('commandstats'))?.[1];
    const before = Number((await published()) ?? 0);
    for (const message of ['one', 'two']) speaker.broadcast(message);
    await speaker.flushed();
    expect(Number(await published())).toBe(before + 2);
    await expect.poll(() => heard).toEqual(['one', 'two']);
    await room.close();
  });

  it('the message bus on Redis is not flushed while Redis has not accepted a message', async () => {
    const room = await RedisRoom.open();
    const speaker = room.node().messageBus;
    await speaker.connected();
    await room.redis.admin.call('CLIENT', 'PAUSE', '600000', 'WRITE');
    let isFlushed = false;
    speaker.broadcast('one');
    const flushed = speaker.flushed().then(() => (isFlushed = true));
    await room.redis.admin.ping();
    expect(isFlushed).toBe(false);
    await room.redis.admin.call('CLIENT', 'UNPAUSE');
    await flushed;
    await room.close();
  });
});
