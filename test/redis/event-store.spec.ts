import { expect, it } from 'vitest';
import { describe } from 'vitest';
import { eventStoreContract } from 'nestjs-mcp-streamable/testing';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

const limits = { maxEvents: 100, maxBytes: 64 * 1024, finishedStreamMs: 60_000 };

describeRedis('the event store on Redis', () => {
  eventStoreContract(
    'RedisEventStore',
    async () => {
      const room = await RedisRoom.open();
      const [here, there] = [room.node({ eventLog: limits }), room.node({ eventLog: limits })];
      const dispose = async () => {
        expect(await room.immortal()).toEqual([]);
        await room.close();
      };
      const { eventStore: store } = here;
      const count = async () => (await store.stats?.())!;
      return { store, peer: there.eventStore, limits, count, advance: (ms) => room.advance(ms), dispose };
    },
    { describe, it },
  );
});
