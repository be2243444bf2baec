import { describe, expect, it } from 'vitest';
import { sessionStoreContract } from 'nestjs-mcp-streamable/testing';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

describeRedis('the session store on Redis', () => {
  sessionStoreContract(
    'RedisSessionStore',
    async () => {
      const room = await RedisRoom.open();
      const [here, there] = [room.node(), room.node()];
      const dispose = async () => {
        expect(await room.immortal()).toEqual([]);
        await room.close();
      };
      return { store: here.sessionStore, peer: there.sessionStore, advance: (ms) => room.advance(ms), dispose };
    },
    { describe, it },
  );
});
