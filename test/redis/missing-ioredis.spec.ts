import { expect, it, vi } from 'vitest';
import { redisBackend, RedisSetupError } from 'nestjs-mcp-streamable/redis';

const missing = vi.hoisted(() =>
  Object.assign(new Error("Cannot find module 'ioredis'"), { code: 'MODULE_NOT_FOUND' }),
);

vi.mock('../../src/redis/connection/ioredis-package.cjs', () => ({
  requireIoredis: () => {
    throw missing;
  },
}));

it('redisBackend() with a URL fails with what to install when ioredis is missing', () => {
  expect(() => redisBackend('redis://localhost:6379')).toThrow(RedisSetupError);
  expect(() => redisBackend('redis://localhost:6379')).toThrow('npm install ioredis');
});
