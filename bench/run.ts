import { parseArgs } from 'node:util';
import { PINNED } from './harness/cores.js';
import { machine } from './harness/machine.js';
import { add, kept } from './harness/results.js';
import { SUBJECTS } from './harness/subjects.js';
import type { Plan, Work, WorkResult } from './harness/work.js';
import { call, lifecycle, modernCall, progress } from './works/calls.js';
import { growth } from './works/growth.js';
import { nodes } from './works/nodes.js';
import { jwt } from './works/tokens.js';
import { notify, replay, sessionMemory, streamMemory } from './works/streams.js';

/** `npm run bench`: see bench/README.md. This process makes the load and does the sums; the servers have processes of their own. */

const WORKS: readonly Work[] = [
  call,
  modernCall,
  progress,
  lifecycle,
  sessionMemory(10),
  sessionMemory(100),
  streamMemory,
  notify,
  replay,
  growth,
  nodes,
  jwt,
];

const { values: options } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    rounds: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    subject: { type: 'string', multiple: true, default: [] },
    profile: { type: 'string' },
  },
});

/** @throws when one of the names is not known */
function among(kind: string, names: readonly string[], known: readonly string[]): readonly string[] {
  const unknown = names.find((name) => !known.includes(name));
  if (unknown === undefined) return names;
  throw new Error(`There is no ${kind} "${unknown}". There are: ${[...new Set(known)].join(', ')}.`);
}

/**
 * Everything, then again what is to be begun anew: a machine differs from one quarter of an hour to the next, and not all servers
 * feel it alike.
 */
async function measure(plan: Plan, works: readonly Work[]): Promise<WorkResult[]> {
  const results: WorkResult[] = [];
  const timesOf = ({ times = 1 }: Work): number => (plan.quick ? 1 : times);
  for (let time = 0; time < Math.max(...works.map(timesOf)); time++) {
    for (const work of works) {
      const times = timesOf(work);
      if (time >= times) continue;
      const began = performance.now();
      for (const found of await work.run({ ...plan, rounds: Math.ceil(plan.rounds / times) })) add(results, found);
      const seconds = Math.round((performance.now() - began) / 1000);
      console.log(`${work.name}: ${seconds} s`);
    }
  }
  return results;
}

const rounds = Number(options.rounds ?? (options.quick ? 8 : 16));
if (!Number.isInteger(rounds) || rounds < 1)
  throw new Error(`--rounds wants a number from 1, not "${options.rounds}".`);
const only = among(
  'work',
  options.only,
  WORKS.map(({ name }) => name),
);
const subjects = among(
  'subject',
  options.subject,
  SUBJECTS.map(({ name }) => name),
);
const works = WORKS.filter(({ name }) => only.length === 0 || only.includes(name));
if (!PINNED) console.warn('Server and load share cores: taskset is missing, or there is only one.');
const plan: Plan = {
  quick: options.quick,
  rounds,
  warmMs: options.quick ? 400 : 1_500,
  roundMs: options.quick ? 60 : 160,
  turnMs: 20,
  only,
  subjects,
  profile: options.profile,
};
const began = performance.now();
// Fails at once when the trees differ.
const about = { ...machine(), pinned: PINNED, quick: options.quick, rounds };
const results = await measure(plan, works);
const { text, file } = kept({ ...about, results });
console.log(`\n${text}\n\n${Math.round((performance.now() - began) / 1000)} s; also in ${file}`);
