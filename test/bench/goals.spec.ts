import { describe, expect, it } from 'vitest';
import { judged, strangeTo } from '../../bench/harness/goals.js';
import type { WorkName } from '../../bench/harness/subjects.js';
import type { Unit, WorkResult } from '../../bench/harness/work.js';

const measured = (work: WorkName, rounds: Record<string, number>, unit: Unit = 'µs'): WorkResult => ({
  work,
  unit,
  title: work,
  rounds: Object.fromEntries(Object.entries(rounds).map(([name, value]) => [name, [value]])),
});

/** The line of each goal. */
const lines = (results: readonly WorkResult[]): string[] =>
  judged(results).map(({ title, measured, goal, met }) => [title, measured, goal, met ? 'yes' : 'no'].join(' | '));

describe('the goals of the benchmark', () => {
  it('the goals of the benchmark are about calls beside the bare route', () => {
    const call = measured('call', { 'ours-fastify': 58, 'bare-fastify': 40, 'ours-express': 108, 'bare-express': 100 });
    const modern = measured('modern-call', { 'ours-fastify': 60, 'bare-fastify': 40, 'ours-express': 1 });
    expect(lines([call, modern])).toEqual([
      'call, Fastify | 1.45× the bare route | ≤ 1.45× the bare route | yes',
      'call, Express | 1.08× the bare route | ≤ 1.05× the bare route | no',
      'modern-call, Fastify | 1.50× the bare route | ≤ 1.45× the bare route | no',
    ]);
  });

  it('the goals of the benchmark are about progress beside the SDK in a route', () => {
    const progress = measured('progress', {
      'ours-fastify': 3.3,
      'sdk-route-fastify': 3,
      'ours-express': 4.2,
      'sdk-route-express': 3,
    });
    expect(lines([progress])).toEqual([
      'progress, Fastify | 1.10× the SDK in a route | ≤ 1.10× the SDK in a route | yes',
      'progress, Express | 1.40× the SDK in a route | ≤ 1.10× the SDK in a route | no',
    ]);
  });

  it('the goals of the benchmark are about progress over Redis beside progress in memory, and about no other row of that work', () => {
    const title = 'one progress event, CPU of the nodes';
    const events = { ...measured('nodes', { memory: 2, redis: 5 }), title };
    expect(lines([measured('nodes', { memory: 1, redis: 9 }), events])).toEqual([
      `${title}, Redis | 2.50× in memory | ≤ 2.50× in memory | yes`,
    ]);
  });

  it('the goals of the benchmark are about each plugin alone, beside a call without it', () => {
    const plugins = measured('plugins', { plain: 20, audit: 22, limits: 22.5, 'otel-sdk': 40, all: 60 });
    expect(lines([plugins])).toEqual([
      'plugins, audit, required, with an empty sink | 2.0 µs more than without | ≤ 2.0 µs more than without | yes',
      'plugins, limits | 2.5 µs more than without | ≤ 2.0 µs more than without | no',
    ]);
  });

  it('the goals of the benchmark are about the time that an import adds to that of Nest', () => {
    const title = 'import of Nest, and of the package';
    const imported = { ...measured('start', { bare: 90_000, ours: 211_000 }), title };
    expect(lines([measured('start', { bare: 1, ours: 1 }), imported])).toEqual([
      `${title}, ours | 121 ms more than Nest | ≤ 120 ms more than Nest | no`,
    ]);
  });

  it('the goals of the benchmark are about idle sessions with few tools and with many', () => {
    const few = measured('session-memory', { 'ours-fastify': 3_072, 'ours-express': 2_048 }, 'bytes');
    const many = { ...measured('session-memory', { 'ours-fastify': 4_096 }, 'bytes'), title: 'with many tools' };
    expect(lines([few, many])).toEqual([
      'session-memory, Fastify | 3.0 KiB | ≤ 3.0 KiB | yes',
      'with many tools, Fastify | 4.0 KiB | ≤ 3.0 KiB | no',
      'session-memory, Express | 2.0 KiB | ≤ 3.0 KiB | yes',
    ]);
  });

  it('the goals of the benchmark are about streams beside the bare SSE route', () => {
    const streams = measured('stream-memory', { 'ours-fastify': 8_192, 'bare-fastify': 6_144 }, 'bytes');
    const notify = measured('notify', { 'ours-express': 24, 'bare-express': 20 });
    expect(lines([streams, notify])).toEqual([
      'stream-memory, Fastify | 2.0 KiB more than the bare SSE route | ≤ 1.6 KiB more than the bare SSE route | no',
      'notify, Express | 1.20× the bare SSE route | ≤ 1.10× the bare SSE route | no',
    ]);
  });

  it('the goals of the benchmark are about short sessions beside three bare routes', () => {
    const fastify = { 'ours-fastify': 300, 'bare-fastify': 200 };
    const express = { 'ours-express': 260, 'bare-express': 200 };
    expect(lines([measured('lifecycle', { ...fastify, ...express })])).toEqual([
      'lifecycle, Fastify | 1.50× three bare routes | ≤ 1.50× three bare routes | yes',
      'lifecycle, Express | 1.30× three bare routes | ≤ 1.25× three bare routes | no',
    ]);
  });

  it('the goals of the benchmark are not judged where a server that they need was not measured', () => {
    const alone = { 'ours-fastify': 60 };
    expect(lines([measured('lifecycle', alone), measured('call', alone), measured('plugins', { audit: 3 })])).toEqual(
      [],
    );
  });

  it('the goals of the benchmark are for Node.js 24', () => {
    expect(strangeTo('v24.21.0')).toBeUndefined();
    expect(strangeTo('v20.20.2')).toBe('The goals are for Node.js 24; here Node.js v20.20.2 measured.');
  });
});
