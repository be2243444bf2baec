import { writeSync } from 'node:fs';
import { Logger } from '@nestjs/common';
import { it } from 'vitest';
import { describeRedis } from '../support/redis.js';
import { share } from '../support/share.js';
import { World, type WorldReport } from './kill/world.js';
import { MOST_MS, watchLag } from './kill/waits.js';

/** More worlds: `npm run x -- kill --worlds 1000`; one of them again: `--seed <its seed> --worlds 1`. */
const WORLDS = share(50, process.env['WORLDS']);
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const AT_A_TIME = Number(process.env['AT_A_TIME'] ?? 10);

describeRedis(
  'nodes that are killed and cut off, a Redis that is paused and restarted',
  () => {
    it(
      `${WORLDS} worlds keep what docs/several-nodes.md promises`,
      { timeout: 120_000 + WORLDS * 20_000 },
      async () => {
        Logger.overrideLogger(false);
        const release = watchLag();
        const reports: WorldReport[] = [];
        const seeds = Array.from({ length: WORLDS }, (_, n) => SEED + n);
        const work = async (): Promise<void> => {
          for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift()) {
            const report = await new World(seed).run();
            reports.push(report);
            if (report.wrong.length > 0) writeSync(2, `\n${told(report)}\n`);
          }
        };
        await Promise.all(Array.from({ length: AT_A_TIME }, work));
        release();
        const failed = reports.filter(({ wrong }) => wrong.length > 0);
        process.stdout.write(`${figures(reports)}\n`);
        if (failed.length > 0)
          throw new Error(`${failed.length} of ${WORLDS} worlds failed: ${failed.map(({ seed }) => seed).join(', ')}`);
      },
    );
  },
  'server',
);

function told({ seed, wrong, trace }: WorldReport): string {
  return `SEED=${seed} WORLDS=1 npx vitest run test/redis/kill.spec.ts\n  ${[...wrong, ...trace].join('\n  ')}`;
}

function figures(reports: readonly WorldReport[]): string {
  const sum = { answer: 0, error: 0, refused: 0, broken: 0 };
  for (const { calls } of reports)
    for (const kind of Object.keys(sum) as (keyof typeof sum)[]) sum[kind] += calls[kind];
  const longest = Math.max(...reports.map(({ longestMs }) => longestMs));
  const calls = Object.entries(sum).map(([kind, count]) => `${count} ${kind}`);
  return `${reports.length} worlds from seed ${SEED}: ${calls.join(', ')}; the longest wait ${Math.round(longest)} of ${MOST_MS} ms`;
}
