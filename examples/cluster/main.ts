import { fork, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { roundRobin } from './round-robin.js';

const { PORT = '3000', REDIS_URL = 'redis://127.0.0.1:6379' } = process.env;
const PORTS = [Number(PORT) + 1, Number(PORT) + 2];
/** Shared by the nodes; in production it comes from where your secrets are. */
const REQUEST_STATE_KEY = process.env['REQUEST_STATE_KEY'] ?? randomBytes(32).toString('base64');

const nodes = PORTS.map((port): ChildProcess => {
  const env = { ...process.env, PORT: String(port), REDIS_URL, REQUEST_STATE_KEY };
  return fork(fileURLToPath(new URL('node.js', import.meta.url)), { env });
});
const proxy = roundRobin(PORTS.map((port) => new URL(`http://127.0.0.1:${port}`)));
proxy.listen(Number(PORT), '127.0.0.1');
await once(proxy, 'listening');
console.log(
  `Two nodes behind http://127.0.0.1:${PORT}/mcp. Call "where" a few times, kill one node (pids ${nodes.map(({ pid }) => pid).join(', ')}), and call it again.`,
);

async function stop(): Promise<void> {
  const running = nodes.filter(({ exitCode }) => exitCode === null);
  const exits = Promise.all(running.map((node) => once(node, 'exit')));
  for (const node of running) node.kill('SIGTERM');
  await exits;
  proxy.close();
  proxy.closeAllConnections();
}
process.once('SIGINT', () => void stop());
process.once('SIGTERM', () => void stop());
