import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DocsService } from '../../examples/quickstart/docs.service.js';

let folder: string;
let docs: DocsService;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'docs-'));
  docs = new DocsService(join(folder, 'served'));
  await mkdir(join(folder, 'served/docs/deep'), { recursive: true });
  await writeFile(join(folder, 'secret.md'), 'secret');
  await writeFile(join(folder, 'served/one.md'), 'one');
  await writeFile(join(folder, 'served/plain.txt'), 'plain');
  await writeFile(join(folder, 'served/docs/two.md'), 'two');
  await writeFile(join(folder, 'served/docs/deep/three.md'), 'three');
});

afterEach(() => rm(folder, { recursive: true }));

const names = async (): Promise<string[]> => (await docs.list()).map(({ name }) => name);

describe('DocsService', () => {
  it('DocsService serves the Markdown files of its folders, as they are at that moment', async () => {
    expect(await names()).toEqual(['docs/two.md', 'one.md']);
    await rename(join(folder, 'served/one.md'), join(folder, 'served/a b?#.md'));
    expect(await names()).toEqual(['a b?#.md', 'docs/two.md']);
    expect(await docs.read('a b?#.md')).toBe('one');
    await expect(docs.read('one.md')).rejects.toThrow('There is no document "one.md".');
  });

  it.each([
    '../secret.md',
    'docs/../../secret.md',
    '..\\secret.md',
    'docs/deep/three.md',
    'docs/deep',
    'plain.txt',
    '/etc/passwd',
    'one.md\0',
    '',
    '.md',
    'constructor',
  ])('DocsService does not know %j', async (name) => {
    await expect(docs.read(name)).rejects.toThrow('There is no document');
  });

  it('DocsService does not know a folder that is named like a document', async () => {
    await mkdir(join(folder, 'served/folder.md'));
    expect(await names()).not.toContain('folder.md');
    await expect(docs.read('folder.md')).rejects.toThrow('There is no document');
  });

  it('DocsService follows links only within the folder', async () => {
    await symlink('../secret.md', join(folder, 'served/out.md'));
    await symlink('docs/two.md', join(folder, 'served/in.md'));
    await symlink('nowhere.md', join(folder, 'served/broken.md'));
    expect(await names()).toEqual(['docs/two.md', 'in.md', 'one.md']);
    expect(await docs.read('in.md')).toBe('two');
    await expect(docs.read('out.md')).rejects.toThrow('There is no document "out.md".');
  });

  it('DocsService serves nothing through a folder that is a link to the outside', async () => {
    await rm(join(folder, 'served/docs'), { recursive: true });
    await symlink('..', join(folder, 'served/docs'));
    expect(await names()).toEqual(['one.md']);
    await expect(docs.read('docs/secret.md')).rejects.toThrow('There is no document');
  });
});
