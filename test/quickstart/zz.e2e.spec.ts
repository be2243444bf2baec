import { it } from 'vitest';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { OFFICIAL_CLIENTS } from './official-clients.js';
import { QuickstartApp } from './quickstart-app.js';
const { connect } = OFFICIAL_CLIENTS[0]!;
it.each(['express','fastify'] as const)('x %s', async (adapter) => {
  for (const settle of [0, 300]) {
  const app = await QuickstartApp.start(adapter);
  const sockets: any[] = [];
  app.app.getHttpServer().on('connection', (s: any) => { const r = {s, n: sockets.length, reqs: [] as string[], bytes: 0}; sockets.push(r); s.on('close', () => (r as any).closed = true); });
  app.app.getHttpServer().prependListener('request', (q: any) => sockets.find((r) => r.s === q.socket)?.reqs.push(q.method));
  const a = await connect(app.url); const b = await connect(app.url);
  await delay(settle);
  await b.terminate(); await b.close();
  await a.terminate(); await a.close();
  await app.expectNothingLeft();
  const t = Date.now();
  const closing = app.close();
  const done = await Promise.race([closing.then(() => true), delay(8000, false)]);
  process.stderr.write(`${adapter} settle ${settle} closed=${done} ${Date.now() - t} ms; ` + JSON.stringify(sockets.map((r) => [r.n, r.reqs.join(), r.s.bytesRead, r.s.bytesWritten, !!r.closed, r.s.readableEnded, r.s.writableEnded])) + '\n');
  for (const r of sockets) r.s.destroy();
  await closing;
  }
}, 60000);
