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
const LIFECYCLES = { 'ours-fastify': 150, 'mcp-nest-express': 400, 'mcp-nest-fastify': 300, 'sdk-v1': 500 };

/** The line of each goal. */
const lines = (results: readonly WorkResult[]): string[] =>
  judged(results).map(({ title, measured, goal, met }) => [title, measured, goal, met ? 'yes' : 'no'].join(' | '));

describe('the goals of the benchmark', () => {
  it('the goals of the benchmark are about calls beside the bare route', () => {
    const call = measured('call', { 'ours-fastify': 60, 'bare-fastify': 40, 'ours-express': 123, 'bare-express': 100 });
    const modern = measured('modern-call', { 'ours-fastify': 61, 'bare-fastify': 40, 'ours-express': 1 });
    expect(lines([call, modern])).toEqual([
      'call, Fastify | 1.50× the bare route | ≤ 1.50× the bare route | yes',
      'call, Express | 1.23× the bare route | ≤ 1.20× the bare route | no',
      'modern-call, Fastify | 1.52× the bare route | ≤ 1.50× the bare route | no',
    ]);
  });

  it('the goals of the benchmark are about progress beside the SDK in a route', () => {
    const progress = measured('progress', {
      'ours-fastify': 3.9,
      'sdk-route-fastify': 3,
      'ours-express': 4.2,
      'sdk-route-express': 3,
    });
    expect(lines([progress])).toEqual([
      'progress, Fastify | 1.30× the SDK in a route | ≤ 1.30× the SDK in a route | yes',
      'progress, Express | 1.40× the SDK in a route | ≤ 1.30× the SDK in a route | no',
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
    const notify = measured('notify', { 'ours-express': 30, 'bare-express': 20 });
    expect(lines([streams, notify])).toEqual([
      'stream-memory, Fastify | 2.0 KiB more than the bare SSE route | ≤ 2.0 KiB more than the bare SSE route | yes',
      'notify, Express | 1.50× the bare SSE route | ≤ 1.40× the bare SSE route | no',
    ]);
  });

  it('the goals of the benchmark are about short sessions beside three bare routes and beside the best peer', () => {
    const express = { 'ours-express': 260, 'bare-express': 200 };
    expect(lines([measured('lifecycle', { ...LIFECYCLES, ...express, 'sdk-v2': 310 })])).toEqual([
      'lifecycle, Fastify | 0.50× the best peer | ≤ 0.50× the best peer | yes',
      'lifecycle, Express | 1.30× three bare routes | ≤ 1.30× three bare routes | yes',
    ]);
    expect(lines([measured('lifecycle', { ...LIFECYCLES, 'sdk-v2': 290 })])).toEqual([
      'lifecycle, Fastify | 0.52× the best peer | ≤ 0.50× the best peer | no',
    ]);
  });

  it('the goals of the benchmark are not judged where a server that they need was not measured', () => {
    expect(lines([measured('lifecycle', LIFECYCLES), measured('call', { 'ours-fastify': 60 })])).toEqual([]);
  });

  it('the goals of the benchmark are for Node.js 24', () => {
    expect(strangeTo('v24.21.0')).toBeUndefined();
    expect(strangeTo('v20.20.2')).toBe('The goals are for Node.js 24; here Node.js v20.20.2 measured.');
  });
});
