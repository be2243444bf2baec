import 'reflect-metadata';
import { type ChildProcess, fork, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';

const { PORT = '3000', HOST = '127.0.0.1' } = process.env;
const [weatherPort, ticketsPort, redisPort] = [1, 2, 3].map((next) => String(Number(PORT) + next));
const children: ChildProcess[] = [];

/** Starts a Redis for the ticket system, if one is installed; else its sessions are in memory. */
function startRedis(): string | undefined {
  if (spawnSync('redis-server', ['--version']).error) return undefined;
  children.push(
    spawn('redis-server', ['--port', redisPort!, '--bind', '127.0.0.1', '--save', ''], { stdio: 'ignore' }),
  );
  return `redis://127.0.0.1:${redisPort}`;
}

function startRemote(name: string, port: string, env: NodeJS.ProcessEnv = {}): string {
  const program = fileURLToPath(new URL(`remotes/${name}.js`, import.meta.url));
  children.push(fork(program, { env: { ...process.env, ...env, PORT: port } }));
  return `http://127.0.0.1:${port}/mcp`;
}

const { REDIS_URL = startRedis() } = process.env;
process.env['WEATHER_URL'] ??= startRemote('weather', weatherPort!);
process.env['TICKETS_URL'] ??= startRemote('tickets', ticketsPort!, REDIS_URL ? { REDIS_URL } : {});

const { AppModule } = await import('./app.module.js');
const app = await NestFactory.create(AppModule, { forceCloseConnections: true });
await app.listen(Number(PORT), HOST);
console.log(`MCP at ${await app.getUrl()}/mcp with the header "X-Api-Key: key-of-ann" or "key-of-gus".`);

async function stop(): Promise<void> {
  await app.close();
  for (const child of children.toReversed()) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    child.kill('SIGTERM');
    await once(child, 'exit');
  }
}
process.once('SIGINT', () => void stop());
process.once('SIGTERM', () => void stop());
