import { parseArgs } from 'node:util';
import { PINNED } from './harness/cores.js';
import { machine } from './harness/machine.js';
import { add, kept } from './harness/results.js';
import { inWords, Steps } from './harness/steps.js';
import { SUBJECTS, type WorkName } from './harness/subjects.js';
import { able, type Plan, type Work, type WorkResult } from './harness/work.js';
import { call, lifecycle, list, modernCall, progress } from './works/calls.js';
import { growth } from './works/growth.js';
import { nodes } from './works/nodes.js';
import { plugins } from './works/plugins.js';
import { start } from './works/start.js';
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
  list,
  growth,
  nodes,
  jwt,
  plugins,
  start,
];

/** What each takes on two quiet cores each time that it is begun, about: roughly measured, and at length. */
const SECONDS: Readonly<Record<WorkName, readonly [quick: number, full: number]>> = {
  call: [18, 35],
  'modern-call': [13, 28],
  progress: [13, 24],
  lifecycle: [22, 48],
  'session-memory': [11, 15],
  'stream-memory': [17, 28],
  notify: [16, 34],
  replay: [7, 14],
  growth: [43, 195],
  nodes: [33, 65],
  jwt: [21, 35],
  list: [12, 25],
  plugins: [28, 62],
  start: [25, 50],
};
const [QUICK_ROUNDS, FULL_ROUNDS] = [8, 16];
/** In `growth` peers are measured only when it is asked for. */
const GROWTH_WITH_PEERS = 3;

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
  throw new Error(`Unknown ${kind} "${unknown}". Available: ${[...new Set(known)].join(', ')}.`);
}

function secondsOf(name: WorkName, plan: Plan): number {
  const { quick, rounds, only, subjects } = plan;
  const usual = SECONDS[name][quick ? 0 : 1] * (name === 'growth' && only.length > 0 ? GROWTH_WITH_PEERS : 1);
  const share = able(name, plan).length / able(name, { ...plan, subjects: [] }).length;
  // Half of it is to start and to warm up.
  const roundsShare = (1 + rounds / (quick ? QUICK_ROUNDS : FULL_ROUNDS)) / 2;
  return usual * (subjects.length > 0 ? share : 1) * roundsShare;
}

/**
 * Everything, then again what is to be begun anew: a machine differs from one quarter of an hour to the next, and not all servers
 * feel it alike.
 */
async function measure(plan: Plan, works: readonly Work[]): Promise<WorkResult[]> {
  const results: WorkResult[] = [];
  const timesOf = ({ times = 1 }: Work): number => (plan.quick ? 1 : times);
  const begun = Array.from({ length: Math.max(...works.map(timesOf)) }, (_, time) =>
    works.filter((work) => time < timesOf(work)),
  ).flat();
  const steps = new Steps(begun.map(({ name }) => ({ title: name, seconds: secondsOf(name, plan) })));
  const names = [...new Set(works.map(({ name }) => name))].join(', ');
  const servers = plan.subjects.length > 0 ? plan.subjects.join(', ') : 'all servers that can do it';
  console.log(
    `The benchmark: ${names}; ${servers}; ${plan.rounds} rounds${plan.quick ? ' (--quick)' : ''}, on Node.js ` +
      `${process.version}. ${begun.length} steps, about ${inWords(steps.seconds)} on two quiet cores.`,
  );
  for (const work of begun) {
    const found = await steps.next(() => work.run({ ...plan, rounds: Math.ceil(plan.rounds / timesOf(work)) }));
    for (const one of found) add(results, one);
  }
  return results;
}

const rounds = Number(options.rounds ?? (options.quick ? QUICK_ROUNDS : FULL_ROUNDS));
if (!Number.isInteger(rounds) || rounds < 1)
  throw new Error(`--rounds must be a number of at least 1; got "${options.rounds}".`);
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
if (!PINNED) console.warn('Server and load share cores: taskset is missing, or there is only one core.');
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
