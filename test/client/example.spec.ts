import 'reflect-metadata';
import { Test } from '@nestjs/testing';
import { getMcpToken, McpClient } from 'nestjs-mcp-streamable/client';
import { lastValueFrom, toArray } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { AppModule } from '../../examples/client/app.module.js';
import { DocsSearch } from '../../examples/client/docs-search.service.js';
import { type Line, progressBar, writeLine } from '../../examples/client/progress-bar.js';
import { DOCS_URL } from '../../examples/client/settings.js';
import { PurchasingModule } from '../../examples/snippets/client-module.js';
import { ONE_ADAPTER, QuickstartApp } from '../quickstart/quickstart-app.js';
import { gate } from '../support/app.js';

describe.each(ONE_ADAPTER)('the example of a client, with the quickstart on %s', (adapter) => {
  let quickstart: QuickstartApp;
  let close: () => Promise<void>;
  let search: DocsSearch;

  beforeEach(async () => {
    quickstart = await QuickstartApp.start(adapter);
    const testing = Test.createTestingModule({ imports: [AppModule] });
    const module = await testing.overrideProvider(DOCS_URL).useValue(quickstart.url.href).compile();
    await module.init();
    close = () => module.close();
    search = module.get(DocsSearch);
  });
  afterEach(async () => {
    await close();
    await quickstart.expectNothingLeft();
    await quickstart.close();
  });

  it('the example of a client shows a bar that fills, then what was found', async () => {
    const lines = await lastValueFrom(search.search$('needle').pipe(toArray()));
    const bars = lines.filter(({ passing }) => passing).map(({ text }) => text);
    expect(bars).toHaveLength(3);
    expect(bars[0]).toMatch(/^\[#{10}-{20}\] 1\/3 \S+\.md$/);
    expect(bars[2]).toMatch(/^\[#{30}\] 3\/3 \S+\.md$/);
    const [found] = lines.filter(({ passing }) => !passing);
    expect(found!.text).toContain('A needle in the readme.');
  });

  it('the example of a client leaves the search when it is no longer wanted', async () => {
    const { index } = quickstart;
    const held = gate();
    index.hold = held.promise;
    const reached = new Promise<void>((resolve) => void index.held$.subscribe(resolve));
    const left = new Promise<void>((resolve) => void index.left$.subscribe(resolve));
    const watching = search.search$('needle').subscribe();
    await reached;
    watching.unsubscribe();
    await left;
    held.open();
  });
});

describe('the progress bar', () => {
  it.each([
    [0, 10, 'a.md', `[${'-'.repeat(30)}]  0/10 a.md`],
    [20, 10, undefined, `[${'#'.repeat(30)}] 20/10`],
    [4, undefined, 'a.md', '4 a.md'],
    [4, 0, undefined, '4'],
    [-1, 3, undefined, `[${'-'.repeat(30)}] -1/3`],
    [Infinity, Infinity, undefined, `[${'-'.repeat(30)}] Infinity/Infinity`],
  ])('%j of %j', (done, total, message, expected) => {
    expect(progressBar(done, total, message)).toBe(expected);
  });
});

describe('the lines of the example', () => {
  const bar: Line = { text: '[###] 1/3 a.md', passing: true };
  const found: Line = { text: 'a.md:1: found\nb.md:2: found', passing: false };
  const written = (terminal: object, ...lines: Line[]): string => {
    let text = '';
    for (const line of lines) writeLine({ ...terminal, write: (more) => (text += more) }, line);
    return text;
  };
  const ERASED = '\r\u001B[2K';

  it('the lines of the example overwrite the bar on a terminal', () => {
    expect(written({ isTTY: true, columns: 80 }, bar, bar, found)).toBe(
      `${ERASED}${bar.text}${ERASED}${bar.text}${ERASED}${found.text}\n`,
    );
  });

  it('the lines of the example are plain lines in a file or a pipe', () => {
    expect(written({}, bar, bar, found)).toBe(`${bar.text}\n${bar.text}\n${found.text}\n`);
  });

  it('the lines of the example keep the bar in one row of the terminal', () => {
    const long = { text: `[###] 1/3 ${'x'.repeat(200)}\nb`, passing: true };
    expect(written({ isTTY: true, columns: 20 }, long)).toBe(`${ERASED}${long.text.slice(0, 19)}`);
    expect(written({ isTTY: true }, long)).toBe(`${ERASED}${long.text.slice(0, 79)}`);
  });

  it.each([{}, { isTTY: true }])('the lines of the example do not let a server steer the terminal: %j', (terminal) => {
    const evil = { text: 'a\u001B]0;title\u0007\u009B2J\rb', passing: false };
    expect(written(terminal, evil).replace(ERASED, '')).toBe('a?]0;title??2J?b\n');
  });
});

describe('the snippets of the documentation', () => {
  it('the snippets of the documentation make an app', async () => {
    const module = await Test.createTestingModule({ imports: [PurchasingModule] }).compile();
    expect(module.get<McpClient>(getMcpToken(McpClient, 'stock'), { strict: false }).name).toBe('stock');
    await module.close();
  });
});
