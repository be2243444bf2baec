import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { stateStoreContract } from 'nestjs-mcp-streamable/testing';
import type { McpStateStore } from 'nestjs-mcp-streamable/stores';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

const TTL_MS = 60_000;

describeRedis('the state store on Redis', () => {
  stateStoreContract(
    'RedisStateStore',
    async () => {
      const room = await RedisRoom.open();
      const [here, there] = [room.node(), room.node()];
      return {
        store: here.stateStore,
        peer: there.stateStore,
        advance: (ms) => room.advance(ms),
        dispose: () => room.close(),
      };
    },
    { describe, it },
  );

  describe('its keys', () => {
    let room: RedisRoom;
    let store: McpStateStore;
    const keep = (key: string, ttlMs?: number) => store.set(key, { key }, ttlMs, { owner: 'path.mcp:p', max: 9 });

    beforeEach(async () => {
      room = await RedisRoom.open();
      store = room.node().stateStore;
    });
    afterEach(() => room.close());

    it('its keys are those of one owner in one slot, and expire with their values', async () => {
      await keep('path.mcp:p:a', TTL_MS);
      await keep('path.mcp:p:b', 2 * TTL_MS);
      await keep('path.mcp:p:c', TTL_MS);
      const tag = '{:state:path.mcp%3Ap}';
      const values = ['a', 'b', 'c'].map((id) => `${tag}:value:${id}`);
      expect(await room.keys()).toEqual([`${tag}:ids`, ...values]);
      expect(await room.immortal()).toEqual([]);
      await room.advance(TTL_MS);
      expect(await room.keys()).toEqual([`${tag}:ids`, `${tag}:value:b`]);
      await room.advance(TTL_MS);
      expect(await room.keys()).toEqual([]);
    });

    it('its keys do not expire for a value without an end, and are deleted with it', async () => {
      await keep('path.mcp:p:a', TTL_MS);
      await keep('path.mcp:p:b');
      await room.advance(10 * TTL_MS);
      expect([await store.get('path.mcp:p:a'), await store.get('path.mcp:p:b')]).toEqual([
        undefined,
        { key: 'path.mcp:p:b' },
      ]);
      // One more, so that what has expired leaves the index too.
      await keep('path.mcp:p:c', TTL_MS);
      await store.delete('path.mcp:p:b');
      await store.delete('path.mcp:p:c');
      expect(await room.keys()).toEqual([]);
    });
  });
});
