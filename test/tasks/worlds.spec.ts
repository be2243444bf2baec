import { expect, it } from 'vitest';
import { share } from '../support/share.js';
import { World } from './world.js';

/** More worlds: `WORLDS=3000`; one of them again: `SEED=<its seed> WORLDS=1`, then with what happened. */
const WORLDS = share(300, process.env['WORLDS']);
const SEED = Number(process.env['SEED'] ?? Math.floor(Math.random() * 2 ** 31));

it(`in ${WORLDS} worlds of faults no task is lost, none has two ends, and none works for ever`, async () => {
  const counts: Record<string, number> = {};
  const failed: string[] = [];
  for (let seed = SEED; seed < SEED + WORLDS; seed++) {
    const world = await new World(seed).run();
    for (const [name, count] of Object.entries(world.counts)) counts[name] = (counts[name] ?? 0) + count;
    if (world.wrong.length === 0) continue;
    const trace = WORLDS === 1 ? world.trace : [];
    failed.push(
      `SEED=${seed} WORLDS=1 npx vitest run test/tasks/worlds.spec.ts\n  ${[...world.wrong, ...trace].join('\n  ')}`,
    );
  }
  const figures = Object.entries(counts).map(([name, count]) => `${count} ${name}`);
  process.stdout.write(`${WORLDS} worlds of tasks from seed ${SEED}: ${figures.join(', ')}\n`);
  expect(failed.join('\n')).toBe('');
}, 120_000);
