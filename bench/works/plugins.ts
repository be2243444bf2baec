import { inParallel } from '../harness/in-parallel.js';
import { callAdd } from '../harness/mcp-client.js';
import { ServerProcess } from '../harness/server-process.js';
import { OURS, PLUGINS } from '../harness/subjects.js';
import { cpuTimes, type Loaded, type Work } from '../harness/work.js';
import { openSessions } from './sessions.js';

const SESSIONS = 10;
/** How many times longer than a call alone it takes until V8 has compiled what all of them use. */
const WARMTH = 3;

/** What each plugin adds to a call in a session, on Fastify, and what all of them add together. */
export const plugins: Work = {
  name: 'plugins',
  times: 2,
  run: async (plan) => {
    if (plan.subjects.length > 0 && !plan.subjects.includes('ours-fastify')) return [];
    const started: ServerProcess[] = [];
    const loaded: Loaded[] = [];
    try {
      for (const { name } of PLUGINS) {
        const nodeArgs = plan.profile ? ['--cpu-prof', `--cpu-prof-dir=${plan.profile}/${name}`] : [];
        const server = await ServerProcess.start(OURS, { ADAPTER: 'fastify', PLUGINS: name }, { nodeArgs });
        started.push(server);
        const sessions = await openSessions(server.port, SESSIONS);
        // The argument is the key of idempotency: it differs from call to call.
        let calls = 0;
        const load = (count: number) =>
          inParallel(server.port, count, (connection, index) =>
            callAdd(connection, sessions[index % SESSIONS]!, calls++),
          );
        loaded.push({ key: name, servers: [server], load, warmUp: plan.quick ? 4_000 : 16_000 });
      }
      return [
        {
          work: 'plugins',
          title: 'tools/call in a session, with plugins',
          unit: 'µs',
          ...(await cpuTimes(loaded, { ...plan, warmMs: plan.warmMs * WARMTH })),
        },
      ];
    } finally {
      await Promise.all(started.map((server) => server.stop()));
    }
  },
};
