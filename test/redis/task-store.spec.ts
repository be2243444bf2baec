import { describe, expect, it } from 'vitest';
import { taskStoreContract } from 'nestjs-mcp-streamable/testing';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

const TTL_MS = 60_000;

describeRedis('the task store on Redis', () => {
  taskStoreContract(
    'RedisTaskStore',
    async () => {
      const room = await RedisRoom.open();
      const [here, there] = [room.node(), room.node()];
      return {
        store: here.taskStore,
        peer: there.taskStore,
        advance: (ms) => room.advance(ms),
        dispose: () => room.close(),
      };
    },
    { describe, it },
  );

  it('the task store on Redis keeps all keys in one slot, and none without expiry', async () => {
    const room = await RedisRoom.open();
    try {
      const { taskStore } = room.node();
      const about = { principal: 'p', tool: 't', createdAt: 0, ttlMs: TTL_MS, pollIntervalMs: 1 };
      for (const [id, node] of Object.entries({ a: 'A', b: 'B' })) {
        await taskStore.create({ ...about, id, node }, { total: 9, perPrincipal: 9 });
      }
      await taskStore.ask('a', { x: {} }, 1);
      expect(await room.keys()).toEqual(
        ['ids', 'of:=p', 'on:A', 'on:B', 'task:a', 'task:b'].map((key) => `{:tasks}:${key}`),
      );
      expect(await room.lasting(TTL_MS)).toEqual([]);
      await room.advance(TTL_MS);
      expect(await room.keys()).toEqual([]);
    } finally {
      await room.close();
    }
  });
});
