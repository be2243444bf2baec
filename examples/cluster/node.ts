import 'reflect-metadata';
import { NestFactory } from '@nestjs/core';
import { NodeModule } from './node.module.js';

const { PORT = '3001', HOST = '127.0.0.1', NODE_NAME = `node-${PORT}` } = process.env;
const { REDIS_URL = 'redis://127.0.0.1:6379', REQUEST_STATE_KEY } = process.env;
if (REQUEST_STATE_KEY === undefined)
  throw new Error('REQUEST_STATE_KEY must be set: the same 32 random bytes on all nodes.');

const settings = { name: NODE_NAME, redisUrl: REDIS_URL, requestStateKey: REQUEST_STATE_KEY };
const app = await NestFactory.create(NodeModule.of(settings), {
  logger: ['error', 'warn'],
  forceCloseConnections: true,
});
// At SIGTERM calls are answered and streams end; sessions and what was logged stay in Redis, for the other nodes.
app.enableShutdownHooks();
await app.listen(Number(PORT), HOST);
console.log(`${NODE_NAME} listens on ${await app.getUrl()}`);
