import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { lastValueFrom, take, toArray } from 'rxjs';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DocsIndex } from '../../examples/quickstart/docs-index.js';
import { DocsService } from '../../examples/quickstart/docs.service.js';

describe('DocsIndex', () => {
  let folder: string;
  let index: DocsIndex;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'docs-index-'));
    index = new DocsIndex(new DocsService(folder));
    await write(
      'one.md',
      '# One\n\nTea is served.\n\nWith\nmilk.\n\n```sh\n# sugar\n```\n\n## Coffee\n\nIt is black.\n',
    );
    await write('two.md', 'No tea today.\n');
  });
  afterEach(() => rm(folder, { recursive: true }));

  const write = (name: string, text: string): Promise<void> => writeFile(join(folder, name), text);
  const find = async (query: string): Promise<string[]> => {
    await lastValueFrom(index.update());
    return index.find(query, 10);
  };

  it('DocsIndex finds sections by words of their headings and texts, and shows the paragraph that fits', async () => {
    expect(await find('coffee')).toEqual(['one.md:14 (Coffee): It is black.']);
    expect(await find('milk')).toEqual(['one.md:5 (One): With milk.']);
    expect(await find('sugar')).toEqual(['one.md:8 (One): ```sh # sugar ```']);
    expect(await find('juice')).toEqual([]);
  });

  it('DocsIndex puts the section first that has most of the words, also misspelled', async () => {
    expect(await find('milky tea')).toEqual(['one.md:3 (One): Tea is served.', 'two.md:1: No tea today.']);
  });

  it('DocsIndex takes what has changed since the last search, and forgets what is gone', async () => {
    await find('tea');
    await write('one.md', '# One\n\nWater, and nothing else.\n');
    await rm(join(folder, 'two.md'));
    expect(await find('tea')).toEqual([]);
    expect(await find('water')).toEqual(['one.md:3 (One): Water, and nothing else.']);
  });

  it('DocsIndex finds each section once after several searches at the same time', async () => {
    await Promise.all(Array.from({ length: 3 }, () => find('tea')));
    expect(await find('tea')).toHaveLength(2);
  });

  it('DocsIndex reads one document after the other, until there is no subscriber', async () => {
    const steps = await lastValueFrom(index.update().pipe(take(1), toArray()));
    expect(steps).toEqual([{ name: 'one.md', done: 1, total: 2 }]);
    expect(index.find('tea', 10)).toHaveLength(1);
  });
});

describe('the search in the documentation of the package', () => {
  const index = new DocsIndex(new DocsService(fileURLToPath(new URL('../..', import.meta.url))));
  beforeAll(() => lastValueFrom(index.update()));

  it.each([
    ['cancel a running database query', 'Cancel a query when the client cancels'],
    ['Jest CommonJS', 'Jest in CommonJS'],
    ['403 host not allowed', '403: host not allowed'],
    ['run a tool once although the client retries', 'Run once'],
  ])('the search in the documentation of the package answers: %s', (question, heading) => {
    const found = index.find(question, 10);
    expect(found[0]).toContain(` (${heading}): `);
    expect(found.filter((line) => line.startsWith('CHANGELOG'))).toEqual([]);
  });
});
