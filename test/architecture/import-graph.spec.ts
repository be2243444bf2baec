import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  describeViolations,
  findFocusedTests,
  findImportViolations,
  findInsideImports,
  findLongFiles,
  findMutableExports,
  findRealTime,
  findSseText,
  findTaskNames,
  MAX_LINES,
} from './rules.js';
import { readSources } from './sources.js';

const root = new URL('../../', import.meta.url);

function readDeclaredPackages(): Set<string> {
  const manifest = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as Record<string, object>;
  return new Set([...Object.keys(manifest.dependencies ?? {}), ...Object.keys(manifest.peerDependencies ?? {})]);
}

describe('the sources', () => {
  const sources = readSources('src');

  it('the sources are found', () => {
    expect(sources.size).toBeGreaterThan(0);
  });

  it('import only the rooms before their own', () => {
    expect(describeViolations(findImportViolations(sources, readDeclaredPackages()))).toBe('');
  });

  it('the sources are named by no test outside of them, but by a few', () => {
    expect(describeViolations(findInsideImports(readSources('test')))).toBe('');
  });

  it('the sources write SSE text in "http" alone', () => {
    expect(describeViolations(findSseText(sources))).toBe('');
  });

  it(`the sources have at most ${MAX_LINES} lines a file`, () => {
    expect(describeViolations(findLongFiles(sources))).toBe('');
  });

  it('the sources export nothing that is assigned after its module was loaded', () => {
    expect(describeViolations(findMutableExports(sources))).toBe('');
  });

  it('the core names tasks where a list says why', () => {
    expect(describeViolations(findTaskNames(sources))).toBe('');
  });

  it('the tests measure no time, and wait for none', () => {
    expect(describeViolations(findRealTime(readSources('src', 'test')))).toBe('');
  });

  it('the sources and the tests leave no test focused', () => {
    expect(describeViolations(findFocusedTests(readSources('src', 'test')))).toBe('');
  });
});

describe('the check itself', () => {
  const declared = new Set(['@nestjs/common', 'rxjs', '@modelcontextprotocol/server']);
  const check = (path: string, text: string): string[] =>
    findImportViolations(new Map([[path, text]]), declared).map(({ line, message }) => `${line}: ${message}`);

  it('the check of imports finds what a room must not import, and its line', () => {
    const cases = [
      [
        'src/core/protocol/a.ts',
        `import type { X } from '../calls/x.js';`,
        '"protocol" may import no other room, not "calls"',
      ],
      [
        'src/core/protocol/a.ts',
        `import { now } from '../common/clock.js';`,
        '"protocol" may import no other room, not "common"',
      ],
      ['src/core/protocol/a.ts', `import { Injectable } from '@nestjs/common';`, 'nothing of Nest'],
      ['src/core/protocol/a.ts', `import { map } from 'rxjs/operators';`, 'nothing of rxjs'],
      ['src/core/protocol/a.spec.ts', `import { x } from '../calls/x.js';`, 'not "calls"'],
      ['src/core/common/a.ts', `import { x } from '../protocol/x.js';`, 'not "protocol"'],
      ['src/core/log/a.ts', `export { x } from '../sessions/x.js';`, 'not "sessions"'],
      [
        'src/core/handlers/a.ts',
        `import { x } from '../sessions/x.js';`,
        'only common, protocol, calls, plugins, not "sessions"',
      ],
      ['src/core/sessions/a.ts', `const x = await import('../http/x.js');`, 'not "http"'],
      ['src/core/sessions/a.ts', `type X = import('../eras/legacy/x.js').X;`, 'not "eras"'],
      ['src/core/eras/legacy/a.ts', `import { x } from '../../http/x.js';`, 'not "http"'],
      ['src/core/http/a.ts', `import { x } from '../../mcp-streamable.module.js';`, 'not "(root)"'],
      ['src/index.ts', `export { x } from './testing/index.js';`, '"testing" is an entry of its own'],
      ['src/index.ts', `export { x } from './live/mcp-live.module.js';`, '"live" is an entry of its own'],
      [
        'src/index.ts',
        `export { x } from './standalone/standalone-session.js';`,
        '"standalone" is an entry of its own',
      ],
      ['src/attic/a.ts', `import { x } from '../core/protocol/x.js';`, 'not a room'],
      ['src/redis/a.ts', `import { x } from '../core/log/mcp-stream.js';`, 'contracts and errors, not "log"'],
      ['src/redis/a.ts', `import { x } from '../core/log/in-memory-event-store.js';`, 'not "log"'],
      ['src/redis/a.ts', `import { x } from '../testing/index.js';`, 'not "testing"'],
      ['src/client/a.ts', `import { x } from '../core/sessions/session-store.js';`, 'not "sessions"'],
      ['src/testing/a.ts', `import { x } from '../bus/message-bus.in-memory.js';`, 'not "bus"'],
      ['src/testing/kit/a.ts', `import { x } from '../../core/sessions/running/x.js';`, 'not "sessions"'],
      ['src/core/sessions/a.ts', `import type { Request } from 'express';`, 'nothing adapter-specific'],
      ['src/mcp.module.ts', `import { X } from '@nestjs/platform-fastify';`, 'nothing adapter-specific'],
      ['src/tasks/a.ts', `import type { X } from '../core/nodes/message-bus.js';`, 'the bus is known to "nodes" alone'],
      ['src/core/http/a.ts', `import fastify from 'fastify';`, 'import its types only'],
      [
        'src/core/methods/a.ts',
        `import { ProtocolError } from '@modelcontextprotocol/server';`,
        'the SDK is loaded by "server"',
      ],
      ['src/index.ts', `export { Server } from '@modelcontextprotocol/server';`, 'the SDK is loaded by "server"'],
      ['src/core/http/a.ts', `import { z } from 'zod';`, 'neither a dependency nor a peer'],
      ['src/core/http/a.ts', `import { x } from '@nestjs/common/internal';`, 'off limits'],
      ['src/core/http/a.ts', `import { x } from 'nestjs-mcp-streamable';`, 'relative paths'],
      ['src/core/http/a.ts', `import { x } from './b';`, 'ends in .js'],
      ['src/core/http/a.ts', `import { x } from '../../../test/b.js';`, 'outside src'],
      ['src/core/log/index.ts', `export * from './a.js';`, 'no `export *`'],
      ['src/index.ts', `export * as protocol from './core/protocol/accept.js';`, 'no `export *`'],
    ] as const;
    for (const [path, text, message] of cases) {
      const found = check(path, `// a first line\n${text}\n`);
      expect([path, text, found]).toEqual([path, text, [expect.stringContaining(message)]]);
      expect(found[0]).toMatch(/^2: /);
    }
  });

  it('the check of imports lets pass what a room may import', () => {
    const cases = [
      [
        'src/core/methods/a.ts',
        `import { x } from './b.js'; import type { Tool } from '@modelcontextprotocol/server';`,
      ],
      ['src/core/eras/legacy/a.ts', `import { x } from '../modern/b.js'; import { y } from '../../sessions/y.js';`],
      ['src/core/http/a.ts', `import type { Request } from 'express'; import { type FastifyReply } from 'fastify';`],
      ['src/mcp-streamable.module.ts', `import { x } from './http/mcp.controller.js'; import { y } from './b.js';`],
      [
        'src/redis/a.ts',
        `import { x } from '../core/sessions/session-store.js'; import { y } from '../nodes/message-bus.js';`,
      ],
      [
        'src/testing/a.ts',
        `import { x } from '../core/log/event-store.errors.js'; import { y } from '../core/protocol/errors.js';`,
      ],
      ['src/core/log/a.spec.ts', `import { x } from '../testing/index.js'; import { expect } from 'vitest';`],
      [
        'src/core/protocol/a.spec.ts',
        `import { x } from '../common/random-token.js'; import { y } from '../../../test/support/y.js';`,
      ],
      ['src/index.ts', `export { x, type Y } from './core/sessions/x.js';`],
      ['src/server/a.ts', `import { Server } from '@modelcontextprotocol/server';`],
      ['src/core/protocol/sdk-tools.ts', `import { specTypeSchemas } from '@modelcontextprotocol/server';`],
      ['src/core/log/a.ts', `// import { x } from '../http/x.js'\nconst text = "import '../http/x.js'";`],
    ] as const;
    for (const [path, text] of cases) expect([path, text, check(path, text)]).toEqual([path, text, []]);
  });

  it('the check of imports names file and line', () => {
    const files = new Map([['src/core/protocol/a.ts', `\n\nimport { x } from '../http/x.js';`]]);
    expect(describeViolations(findImportViolations(files, declared))).toBe(
      'src/core/protocol/a.ts:3: "../http/x.js": "protocol" may import no other room, not "http"',
    );
  });

  it('the check of imports finds SSE text outside of "http"', () => {
    const cases = [
      ['src/core/calls/a.ts', 'const frame = `event: message\\ndata: ${data}\\n\\n`;'],
      ['src/core/calls/a.ts', 'const head = `id: ${id}` + lines;'],
      ['src/core/sessions/a.ts', `const empty = id + '\\ndata:\\n\\n';`],
      ['src/core/sessions/a.ts', `const comment = ':\\n\\n';`],
      ['src/stdio/a.ts', `if (line.startsWith('id: ')) cursor = line.slice(4);`],
      ['src/stdio/a.spec.ts', 'const data = /^data: (.+)$/m.exec(text);'],
    ] as const;
    for (const [path, text] of cases)
      expect([text, findSseText(new Map([[path, text]])).map(({ line }) => line)]).toEqual([text, [1]]);
  });

  it('the check of imports finds no SSE text where it is written or read, nor in what looks like it', () => {
    const cases = [
      ['src/core/http/a.ts', `const retry = 'retry: 1';`],
      ['src/client/a.spec.ts', `const text = 'data: {}\\n\\n';`],
      ['src/core/handlers/a.ts', `const isUrl = source.startsWith('data:');`],
      ['src/core/handlers/a.ts', `const text = 'id: it is required';`],
      ['src/core/handlers/a.ts', `const event = { id: '1', data: 'x' }; // data: x`],
    ] as const;
    for (const [path, text] of cases) expect([text, findSseText(new Map([[path, text]]))]).toEqual([text, []]);
  });

  it.each([
    ['a variable', 'export let x;', [1]],
    ['a variable of the old kind', 'export var x = 1;', [1]],
    ['a variable in a list', 'let x = 1;\nexport { x, y };', [2]],
    ['a variable under another name', 'let x = 1;\nexport { x as y };', [2]],
    ['no constant', 'const x = 1;\nexport { x };\nexport const y = 1;\nfunction f() {\n  let x = 1;\n}', []],
  ])('the check of exports finds %s', (_, text, lines) => {
    expect(findMutableExports(new Map([['src/core/calls/a.ts', text]])).map(({ line }) => line)).toEqual(lines);
  });

  it.each([
    ['a type', 'import type { McpTask } from "./a.js";', 1],
    ['the name of the option', `const task = option('task');`, 1],
    ['a constant', 'add(TASKS_EXTENSION);', 1],
    ['no comment', '// A task is a client.\n/** Of `startTask()`. */\nconst x = 1; // not McpTask', 0],
    ['no work that a clock runs', 'setTimeout(task: () => void): void; queueMicrotask(task);', 0],
  ])('the check of what the core knows of tasks finds %s', (_, text, count) => {
    expect(findTaskNames(new Map([['src/core/calls/a.ts', text]]), {})).toHaveLength(count);
    expect(findTaskNames(new Map([['src/tasks/a.ts', text]]), {})).toEqual([]);
    expect(findTaskNames(new Map([['src/core/calls/a.ts', text]]), { 'src/core/calls/a.ts': 'why' })).toHaveLength(
      1 - count,
    );
  });

  it.each([
    ['a measurement', 'const began = performance.now();', 1],
    ['a measurement by the date', 'expect(Date.now() - began).toBeLessThan(1_000);', 1],
    ['a pause', 'await new Promise((resolve) => setTimeout(resolve, 100));', 1],
    ['a pause of Node', "import { setTimeout as sleep } from 'node:timers/promises';", 1],
    ['no pause on a clock of the test', 'await new Promise((resolve) => clock.setTimeout(resolve, 100));', 0],
    ['no date', 'vi.setSystemTime(Date.now() + 1_000);', 0],
    ['no turn of the event loop', "import { setImmediate as nextTurn } from 'node:timers/promises';", 0],
  ])('the check of real time finds %s', (_, text, count) => {
    expect(findRealTime(new Map([['test/legacy/a.spec.ts', text]]), {})).toHaveLength(count);
  });

  it('the check of real time leaves exempt files alone, and names those that need no exemption', () => {
    const files = new Map([
      ['test/redis/a.spec.ts', 'performance.now();'],
      ['test/redis/b.spec.ts', ''],
    ]);
    const exempt = { 'test/redis/a.spec.ts': 'suspends Redis', 'test/redis/b.spec.ts': 'suspends Redis' };
    expect(findRealTime(files, exempt).map(({ path }) => path)).toEqual(['test/redis/b.spec.ts']);
  });

  it('the check of imports finds files that are too long, and leaves specifications alone', () => {
    const text = 'x;\n'.repeat(MAX_LINES + 1);
    const files = new Map([
      ['src/core/protocol/a.ts', text],
      ['src/core/protocol/a.spec.ts', text],
      ['src/core/protocol/b.ts', 'x;\n'.repeat(MAX_LINES)],
    ]);
    expect(findLongFiles(files).map(({ path }) => path)).toEqual(['src/core/protocol/a.ts']);
  });

  it('the check of imports finds tests that import from src, and those that are needlessly allowed to', () => {
    const files = new Map([
      ['test/a/entry.spec.ts', `import { x } from 'nestjs-mcp-streamable'; import { y } from '../support/y.js';`],
      ['test/a/inside.spec.ts', `\nimport type { X } from '../../src/wire/x.js';`],
      ['test/a/later.spec.ts', `const x = await import('../../src/index.js');`],
      ['test/a/insider.ts', `import { x } from '../../src/wire/x.js';`],
    ]);
    const found = findInsideImports(files, { 'test/a/insider.ts': 'why', 'test/a/entry.spec.ts': 'no more' });
    expect(found.map(({ path, line }) => `${path}:${line}`)).toEqual([
      'test/a/inside.spec.ts:2',
      'test/a/later.spec.ts:1',
      'test/a/entry.spec.ts:1',
    ]);
  });

  it('the check of imports finds focused tests', () => {
    const focused = ['it', 'describe.concurrent'].map((name) => [name, 'only("x", () => {});'].join('.'));
    const files = new Map([['test/a.spec.ts', ['it("x");', ...focused, 'options.only = 1;'].join('\n')]]);
    expect(findFocusedTests(files).map(({ line }) => line)).toEqual([2, 3]);
  });
});
