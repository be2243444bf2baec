// Worlds in which nodes are killed, on a quiet machine: `npm run x -- kill --worlds 1000 --seed 1`. See test/redis/kill.spec.ts.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values } = parseArgs({
  options: {
    worlds: { type: 'string', default: '1000' },
    seed: { type: 'string' },
    'at-a-time': { type: 'string', default: '10' },
  },
});
const env = { ...process.env, WORLDS: values.worlds, AT_A_TIME: values['at-a-time'], QUIET_MACHINE: '1' };
if (values.seed !== undefined) env.SEED = values.seed;
const cwd = fileURLToPath(new URL('..', import.meta.url));
const { status } = spawnSync('npx', ['vitest', 'run', '--silent=false', 'test/redis/kill.spec.ts'], {
  cwd,
  env,
  stdio: 'inherit',
});
process.exitCode = status ?? 1;
