import { describe, expect, it } from 'vitest';
import { findCircles } from './circles.js';
import { describeViolations } from './rules.js';
import { readSources } from './sources.js';

it('the sources have no circles of imports, those of types included', () => {
  expect(describeViolations(findCircles(readSources('src')))).toBe('');
});

describe('the check of circles', () => {
  const circles = (files: Record<string, string[]>): string[] => {
    const texts = Object.entries(files).map(([path, imports]) => {
      const lines = imports.map((each) => `import type { X } from '${each}';`);
      return [`src/core/${path}`, lines.join('\n')] as const;
    });
    return findCircles(new Map(texts)).map(({ message }) => message);
  };

  it('the check of circles finds files that import each other by others', () => {
    const files = { 'calls/a.ts': ['./b.js'], 'calls/b.ts': ['../protocol/c.js'], 'protocol/c.ts': ['../calls/a.js'] };
    expect(circles(files)[0]).toBe(
      'a circle of imports: src/core/calls/a.ts, src/core/calls/b.ts, src/core/protocol/c.ts',
    );
  });

  it('the check of circles finds folders of a room that import each other, and files beside them', () => {
    expect(
      circles({
        'http/edge/a.ts': ['../io/b.js'],
        'http/io/b.ts': [],
        'http/io/c.ts': ['../edge/d.js'],
        'http/edge/d.ts': [],
      }),
    ).toEqual(['a circle of imports: src/core/http/edge, src/core/http/io']);
    expect(circles({ 'http/edge/a.ts': ['../b.js'], 'http/b.ts': ['./edge/c.js'], 'http/edge/c.ts': [] })).toEqual([
      'a circle of imports: src/core/http/b.ts, src/core/http/edge',
    ]);
  });

  it('the check of circles finds none where imports go one way', () => {
    const files = { 'http/a.ts': ['./edge/b.js', './c.js'], 'http/edge/b.ts': ['../c.js'], 'http/c.ts': [] };
    expect(circles(files)).toEqual([]);
  });
});
