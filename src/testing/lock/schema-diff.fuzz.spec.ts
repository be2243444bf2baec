import { expect, it } from 'vitest';
import { AjvJsonSchemaValidator } from '../../core/protocol/sdk-tools.js';
import { share } from '../../../test/support/share.js';
import { schemaChanges } from './schema-diff.js';

/** A failure names its seed: `FUZZ_SEED=<seed> FUZZ_RUNS=1 npx vitest run src/testing/lock/schema-diff.fuzz.spec.ts` */
const SEED = Number(process.env['FUZZ_SEED'] ?? 1);
/** Pairs of schemas; each is tried with so many values. */
const RUNS = share(6_000, process.env['FUZZ_RUNS']);
const VALUES = 300;

type Schema = Record<string, unknown>;

/** Makes the same random numbers for a seed. */
function randomOf(seed: number) {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!;
  const maybe = (chance: number): boolean => next() < chance;
  return { pick, maybe, some: <T>(list: readonly T[], chance: number): T[] => list.filter(() => maybe(chance)) };
}

/** Makes random schemas, changes of them, and values. */
class Maker {
  readonly #random;
  constructor(seed: number) {
    this.#random = randomOf(seed);
  }

  schema(depth: number): Schema {
    const { pick, maybe, some } = this.#random;
    const kinds = depth === 0 ? [] : ['object', 'object', 'array', 'anyOf', 'nullable', 'allOf', 'ref'];
    switch (pick(['leaf', 'leaf', ...kinds])) {
      case 'object': {
        const properties = Object.fromEntries(some(['a', 'b', 'c'], 0.6).map((name) => [name, this.schema(depth - 1)]));
        const additionalProperties = pick<unknown>([undefined, false, true, this.#leaf()]);
        return {
          type: 'object',
          properties,
          required: some(['a', 'b', 'c'], 0.3),
          ...(additionalProperties !== undefined && { additionalProperties }),
        };
      }
      case 'array':
        return { type: 'array', items: this.schema(depth - 1), ...(maybe(0.3) && { minItems: pick([1, 2]) }) };
      case 'anyOf':
        return { anyOf: [this.schema(depth - 1), this.schema(depth - 1)] };
      case 'nullable':
        return { anyOf: [this.schema(depth - 1), { type: 'null' }] };
      case 'allOf':
        return { allOf: [this.schema(depth - 1), this.#leaf()] };
      case 'ref':
        return { $ref: '#/$defs/D' };
      default:
        return this.#leaf();
    }
  }

  #leaf(): Schema {
    const { pick, maybe, some } = this.#random;
    return pick<() => Schema>([
      () => ({
        type: 'string',
        ...(maybe(0.4) && { minLength: pick([1, 2]) }),
        ...(maybe(0.3) && { pattern: pick(['^a', 'b$']) }),
      }),
      () => ({
        type: pick(['number', 'integer']),
        ...(maybe(0.4) && { minimum: pick([0, 1, 2]) }),
        ...(maybe(0.3) && { maximum: pick([1, 3]) }),
      }),
      () => ({
        type: pick([
          ['string', 'null'],
          ['number', 'string'],
          ['object', 'null'],
        ]),
      }),
      () => ({ enum: [...some(['a', 'b', 1, null], 0.5), 'z'] }),
      () => ({ const: pick<unknown>(['a', 1, null]) }),
      () => ({ type: 'boolean' }),
      () => ({}),
    ])();
  }

  /** Changes some parts of a schema. */
  changed(schema: Schema): Schema {
    const { maybe, pick, some } = this.#random;
    if (maybe(0.12)) return this.#leaf();
    const entries = Object.entries(schema).flatMap(([key, value]): [string, unknown][] => {
      if (key === 'anyOf' || key === 'allOf') {
        const parts = (value as Schema[]).map((part) => (maybe(0.4) ? this.changed(part) : part));
        return [[key, [...(maybe(0.2) ? parts.toReversed() : parts), ...(maybe(0.2) ? [this.#leaf()] : [])]]];
      }
      if (key === 'properties' || key === '$defs') {
        const kept = Object.entries(value as Record<string, Schema>).filter(() => key === '$defs' || maybe(0.9));
        return [[key, Object.fromEntries(kept.map(([name, each]) => [name, maybe(0.4) ? this.changed(each) : each]))]];
      }
      if (key === 'items') return [[key, this.changed(value as Schema)]];
      if (key === 'required') return [[key, maybe(0.3) ? some(['a', 'b', 'c'], 0.4) : value]];
      if (typeof value === 'number' && maybe(0.5)) return [[key, pick([0, 1, 2, 3])]];
      return key !== 'type' && key !== '$ref' && maybe(0.15) ? [] : [[key, value]];
    });
    return Object.fromEntries(entries);
  }

  value(depth: number): unknown {
    const { pick, maybe, some } = this.#random;
    if (depth > 0 && maybe(0.35))
      return Object.fromEntries(some(['a', 'b', 'c'], 0.5).map((name) => [name, this.value(depth - 1)]));
    if (depth > 0 && maybe(0.2)) return some([1, 2, 3], 0.5).map(() => this.value(depth - 1));
    return pick<unknown>(['', 'a', 'ab', 'abb', 0, 1, 2, 3, 1.5, true, null, 'z']);
  }
}

/** Returns a function that validates by a schema. */
function validatorOf(schema: Schema): (value: unknown) => boolean {
  const validate = new AjvJsonSchemaValidator().getValidator(schema);
  return (value) => validate(value).valid;
}

it('a change after which arguments are refused, or other results are returned, is never called additive alone', () => {
  for (let seed = SEED; seed < SEED + RUNS; seed++) {
    const maker = new Maker(seed);
    const before: Schema = { ...maker.schema(3), $defs: { D: maker.schema(0) } };
    const after: Schema = { $defs: before['$defs'], ...maker.changed(before) };
    const [accepted, accepts] = [validatorOf(before), validatorOf(after)];
    const [input, output] = [schemaChanges(before, after, 'input', 'x'), schemaChanges(before, after, 'output', 'x')];
    for (let at = 0; at < VALUES; at++) {
      const value = maker.value(3);
      const [was, is] = [accepted(value), accepts(value)];
      if (was === is) continue;
      const changes = was ? input : output;
      const text = `FUZZ_SEED=${seed}: ${JSON.stringify({ before, after, value, changes })}`;
      if (changes.every(({ severity }) => severity === 'additive')) expect.fail(text);
    }
  }
}, 180_000);
