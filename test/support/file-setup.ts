import { afterAll } from 'vitest';
import { stopSharedRedis } from './redis.js';

/** Runs for each file, also when files share a process. */
afterAll(stopSharedRedis);
