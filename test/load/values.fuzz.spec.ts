import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { seededRandom } from '../support/share.js';
import { type Measured, MeasuredNode } from './values/child.js';
import type { Kind } from './values/node.js';
import { OTHER_PLACES, type Place, PLACES_IN_TOOLS } from './values/places.js';
import { SHAPES } from './values/shapes.js';

const PROGRAM = join(ROOT, `build/values-${process.pid}`);
/** A request may cost so much more than the idle process. */
const MAX_CPU_MS = 500;
const MAX_MEBIBYTES = 150;
const MAX_ANSWER = 20_000;
/**
 * `VALUES=all` sends each shape in each place, which takes up to an hour; `VALUES='deep,many names'` does so for these shapes.
 * Other runs take a sample.
 */
const { VALUES = '', SEED = '1' } = process.env;
const ALL = VALUES !== '';
const NAMES = ALL && VALUES !== 'all' ? VALUES.split(',') : Object.keys(SHAPES);
const TIMEOUT_MS = ALL ? 3_600_000 : 120_000;

const random = seededRandom(Number(SEED));

/** So large is a value: as a body may be, below the limits of values, and small. */
type Size = '4 MiB' | number;
const OF_SERVERS = /^(?:zod_(?:texts|wide|union|formats)|valibot_wide|arktype_wide)$/;
const READ = ['initialize', 'server/discover', 'prompts/get', 'no/such'];
const READ_PLACES = OTHER_PLACES.filter(({ method }) => READ.includes(method));

/** What is sent in which way: where the same code reads and checks it, a part is enough. */
const KINDS: Readonly<Record<Kind, { places: readonly Place[]; sizes: readonly Size[]; sample: number }>> = {
  fastify: { places: [...PLACES_IN_TOOLS, ...OTHER_PLACES], sizes: ['4 MiB', 98_000, 9_800, 950], sample: 20 },
  express: { places: READ_PLACES, sizes: ['4 MiB', 98_000], sample: 3 },
  stdio: { places: READ_PLACES, sizes: ['4 MiB', 98_000], sample: 3 },
  server: {
    places: [...PLACES_IN_TOOLS.filter(({ named = '' }) => OF_SERVERS.test(named)), ...OTHER_PLACES],
    sizes: ['4 MiB', 9_800],
    sample: 6,
  },
  session: { places: READ_PLACES, sizes: ['4 MiB', 9_800], sample: 3 },
};

const countOf = (text: string): number => text.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/[,[{]/g)?.length ?? 0;

function textOf(shape: string, size: Size): string {
  const make = SHAPES[shape]!;
  if (size === '4 MiB') return make(3_900_000);
  const sample = make(200_000);
  const bytes = Math.floor((size * sample.length) / Math.max(1, countOf(sample)));
  return make(Math.min(bytes, 3_900_000));
}

const isDear = ({ cpuMs, mebibytes, text }: Measured): boolean =>
  cpuMs > MAX_CPU_MS || mebibytes > MAX_MEBIBYTES || text.length > MAX_ANSWER;

/** Measures again what is dear: another process may have disturbed the first time. */
async function measured(ask: () => Promise<Measured>): Promise<Measured> {
  const first = await ask();
  return isDear(first) ? ask() : first;
}

beforeAll(() => bundle({ node: 'test/load/values/node.ts' }, PROGRAM), 120_000);
afterAll(() => rmSync(PROGRAM, { recursive: true, force: true }));

describe.each(Object.keys(KINDS) as Kind[])('requests of any shape to %s', (kind) => {
  const { places, sizes, sample } = KINDS[kind];
  let node: MeasuredNode;
  beforeAll(async () => {
    node = await MeasuredNode.start(join(PROGRAM, 'node.js'), kind);
  });
  afterAll(() => node.close());

  const cases = NAMES.flatMap((shape) => sizes.flatMap((size) => places.map((place) => ({ shape, size, place }))));
  const rank = new Map(cases.map((each) => [each, random()]));
  const chosen = ALL ? cases : cases.toSorted((a, b) => rank.get(a)! - rank.get(b)!).slice(0, sample);

  it.each([...new Set(chosen.map(({ shape }) => shape))])(
    'a request with %s is answered within half a second of CPU, 150 MiB, and a short text',
    async (name) => {
      const texts = new Map<Size, string>();
      const dear: string[] = [];
      for (const { shape, size, place } of chosen) {
        if (shape !== name) continue;
        const value = texts.get(size) ?? textOf(shape, size);
        texts.set(size, value);
        const answer = await measured(() => node.ask(place, value));
        const { cpuMs, mebibytes, status, text } = answer;
        const cost = `${Math.round(cpuMs)} ms, ${Math.round(mebibytes)} MiB, ${text.length} characters`;
        if (isDear(answer) || status >= 500)
          dear.push(`${size} in ${place.era} ${place.method}: ${status}, ${cost}: ${place.params('…')}`);
      }
      expect(dear).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it.runIf(kind === 'fastify').each(ALL ? NAMES : ['many names'])(
    'an answer with %s to a question is read within half a second of CPU and 150 MiB',
    async (shape) => {
      const dear: string[] = [];
      for (const size of sizes) {
        const text = textOf(shape, size);
        for (const result of [
          text,
          `{"action":"accept","content":${text}}`,
          `{"action":"accept","content":{"name":${text}}}`,
        ]) {
          const answer = await measured(() => node.answer(result));
          if (isDear(answer)) dear.push(`${size}: ${JSON.stringify(answer).slice(0, 300)}`);
        }
      }
      expect(dear).toEqual([]);
    },
    TIMEOUT_MS,
  );
});
