import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { bundle, ROOT } from '../support/bundle.js';
import { seededRandom } from '../support/share.js';
import { type Measured, MeasuredNode } from './values/child.js';
import { type Place, PLACES } from './values/places.js';
import { SHAPES } from './values/shapes.js';

const PROGRAM = join(ROOT, `build/values-${process.pid}`);
/** A request may cost so much more than the idle process. */
const MAX_CPU_MS = 500;
const MAX_MEBIBYTES = 150;
const MAX_ANSWER = 20_000;
/** `VALUES=all` sends each shape in each place, which takes up to an hour; other runs take a sample. */
const ALL = process.env['VALUES'] === 'all';
const SAMPLE = 30;
const SEED = Number(process.env['SEED'] ?? 1);

/** So large is a value: as a body may be, below the limits of values, and small. */
const SIZES = ['4 MiB', 98_000, 9_800, 950] as const;
const countOf = (text: string): number => text.replace(/"(?:[^"\\]|\\.)*"/g, '').match(/[,[{]/g)?.length ?? 0;

function textOf(shape: string, size: (typeof SIZES)[number]): string {
  const make = SHAPES[shape]!;
  if (size === '4 MiB') return make(3_900_000);
  const sample = make(200_000);
  const bytes = Math.floor((size * sample.length) / Math.max(1, countOf(sample)));
  return make(Math.min(bytes, 3_900_000));
}

describe('a request of any shape', () => {
  let node: MeasuredNode;
  beforeAll(async () => {
    await bundle({ node: 'test/load/values/node.ts' }, PROGRAM);
    node = await MeasuredNode.start(join(PROGRAM, 'node.js'));
  }, 120_000);
  afterAll(async () => {
    await node.close();
    rmSync(PROGRAM, { recursive: true, force: true });
  });

  const sent = async (place: Place, text: string): Promise<Measured> => {
    const measured = await node.ask(place, text);
    // Another process may have disturbed the first one.
    return isDear(measured) ? node.ask(place, text) : measured;
  };
  const isDear = ({ cpuMs, mebibytes, text }: Measured): boolean =>
    cpuMs > MAX_CPU_MS || mebibytes > MAX_MEBIBYTES || text.length > MAX_ANSWER;

  it(
    'a request of any shape is answered within half a second of CPU, 150 MiB, and a short text',
    async () => {
      const random = seededRandom(SEED);
      const cases = Object.keys(SHAPES).flatMap((shape) =>
        SIZES.flatMap((size) => PLACES.map((place) => ({ shape, size, place }))),
      );
      const rank = new Map(cases.map((each) => [each, random()]));
      const chosen = ALL ? cases : cases.toSorted((a, b) => rank.get(a)! - rank.get(b)!).slice(0, SAMPLE);
      const dear: string[] = [];
      let answered = 0;
      for (const { shape, size, place } of chosen) {
        const measured = await sent(place, textOf(shape, size));
        if (measured.status < 500) answered++;
        const { cpuMs, mebibytes, status, text } = measured;
        const cost = `${Math.round(cpuMs)} ms, ${Math.round(mebibytes)} MiB, ${text.length} characters`;
        if (isDear(measured))
          dear.push(`${shape} (${size}) in ${place.era} ${place.method}: ${status}, ${cost}: ${place.params('…')}`);
      }
      expect(dear).toEqual([]);
      expect(answered).toBe(chosen.length);
    },
    ALL ? 3_600_000 : 120_000,
  );

  it(
    'an answer to a question of any shape is read within half a second of CPU and 150 MiB',
    async () => {
      const dear: string[] = [];
      for (const shape of ALL ? Object.keys(SHAPES) : ['many names']) {
        for (const size of SIZES) {
          const text = textOf(shape, size);
          for (const result of [
            text,
            `{"action":"accept","content":${text}}`,
            `{"action":"accept","content":{"name":${text}}}`,
          ]) {
            const measured = await node.answer(result);
            if (isDear(measured)) dear.push(`${shape} (${size}): ${JSON.stringify(measured).slice(0, 300)}`);
          }
        }
      }
      expect(dear).toEqual([]);
    },
    ALL ? 600_000 : 60_000,
  );
});
