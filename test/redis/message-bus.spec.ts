import { describe, it } from 'vitest';
import { firstValueFrom } from 'rxjs';
import { messageBusContract } from '../../src/testing/index.js';
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
});
