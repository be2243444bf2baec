import { spawnSync } from 'node:child_process';
import { mkdir, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Injectable } from '@nestjs/common';
import { McpSkillsModule, readSkillFolder, Skill, type McpSkillsOptions } from 'nestjs-mcp-streamable/skills';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestAppOptions } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { eventually, testApps } from '../support/test-apps.js';
import { skillFolders, skillMd } from './folders.js';

const SECRET = 'root:x:0:0';
const GOOD = { 'good/SKILL.md': skillMd('good'), 'good/a/b.txt': 'text' };

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
const uris = (entries: any[]): string[] => entries.map(({ uri }) => uri);

describe.each(ONE_ADAPTER)('what a folder of skills does not serve, on %s', (adapter) => {
  const start = testApps(adapter);
  const folder = skillFolders();
  const startWith = async (options: McpSkillsOptions, more: Partial<TestAppOptions> = {}) => {
    const app = await start({ module: { imports: [McpSkillsModule.forRoot(options)] }, ...more });
    const client = new ModernClient(app.url);
    return { app, ask: (method: string, params: Record<string, unknown> = {}) => client.ask(method, params) };
  };

  it('K3: a URI that no entry has, letter by letter, is not found, whatever it points to', async () => {
    const { path, write } = await folder(GOOD);
    await write({ '../secret.txt': SECRET, 'good/.env': SECRET, '.git/config': SECRET });
    const { ask } = await startWith({ folders: [path] });
    const odd = [
      'skill://../../etc/passwd',
      'skill://good/../secret.txt',
      'skill://good/../../secret.txt',
      'skill://good/%2e%2e/secret.txt',
      'skill://good/%2e%2e%2fsecret.txt',
      'skill://good/..%2f..%2fsecret.txt',
      'skill://good/..\\..\\secret.txt',
      'skill://good//a/b.txt',
      'skill://good/a/./b.txt',
      'skill://good/a/b.txt\0',
      'skill://good/a/b.txt%00',
      'skill://good/a/b.txt?x',
      'skill://good/a/b.txt#x',
      'skill://good/a%2Fb.txt',
      'skill://GOOD/SKILL.md',
      'skill://good/skill.md',
      'skill:///good/SKILL.md',
      'skill://good/.env',
      'skill://.git/config',
      'skill://good',
      'skill://good/',
      'skill://good/__proto__',
      'skill://__proto__/SKILL.md',
      'skill://good/%',
      `skill:/${'/'.repeat(100_000)}`,
      `skill://good${'/x'.repeat(100_000)}`,
    ];
    for (const uri of odd) {
      for (const method of ['resources/read', 'skills/get']) {
        const answer = JSON.stringify(await ask(method, { uri }).catch(() => ({ error: { code: -32602 } })));
        expect(answer).toContain('"error"');
        expect(answer).not.toContain(SECRET);
      }
      if (uri === 'skill://good') continue;
      expect((await ask('resources/directory/read', { uri })).error).toMatchObject({ code: -32602 });
    }
    const { result } = await ask('resources/read', { uri: 'skill://good/a/b.txt' });
    expect(result.contents).toEqual([{ uri: 'skill://good/a/b.txt', mimeType: 'text/plain', text: 'text' }]);
  });

  it('K3: hidden files and folders are in no entry', async () => {
    const { path } = await folder({
      ...GOOD,
      'good/.env': SECRET,
      'good/.git/x': SECRET,
      '.hidden/SKILL.md': skillMd('hidden'),
    });
    const { ask } = await startWith({ folders: [path] });
    const { skills } = (await ask('skills/list')).result;
    expect(uris(skills)).toEqual(['skill://good/SKILL.md']);
    expect(uris(skills[0].resources)).toEqual(['skill://good/SKILL.md', 'skill://good/a/b.txt']);
  });

  it('K3: a skill with a symbolic link, a pipe or too large a file in it is left out, and the log names it', async () => {
    const { path, write } = await folder(GOOD);
    await write({
      '../outside/SKILL.md': skillMd('outside'),
      '../secret.txt': SECRET,
      'linked-file/SKILL.md': skillMd('linked-file'),
      'linked-folder/SKILL.md': skillMd('linked-folder'),
      'piped/SKILL.md': skillMd('piped'),
      'huge/SKILL.md': skillMd('huge'),
      'huge/data.bin': '',
      'many/SKILL.md': skillMd('many'),
      ...Object.fromEntries(Array.from({ length: 512 }, (_, n) => [`many/${n}.txt`, ''])),
    });
    await symlink(join(path, '../secret.txt'), join(path, 'linked-file/passwd'));
    await symlink(join(path, '../outside'), join(path, 'linked-folder/more'));
    await symlink(join(path, '../outside'), join(path, 'outside'));
    await mkdir(join(path, 'linked-manifest'));
    await symlink(join(path, '../outside/SKILL.md'), join(path, 'linked-manifest/SKILL.md'));
    // Sparse: it would not fit into the memory.
    await truncate(join(path, 'huge/data.bin'), 2 ** 40);
    spawnSync('mkfifo', [join(path, 'piped/pipe')]);
    const { app, ask } = await startWith({ folders: [path] });
    expect(uris((await ask('skills/list')).result.skills)).toEqual(['skill://good/SKILL.md']);
    const log = app.log.texts('warn').join('\n');
    expect(log).toMatch(/linked-file" is left out: \S+linked-file\/passwd: it is a symbolic link.*Copy/);
    expect(log).toMatch(/linked-folder" is left out: \S+more: it is a symbolic link/);
    expect(log).toMatch(/linked-manifest" is left out/);
    expect(log).toMatch(/skills\/outside is left out: it is a symbolic link/);
    expect(log).toMatch(/piped" is left out: \S+pipe: it is no regular file/);
    expect(log).toMatch(/huge" is left out: its files have \d+ bytes, more than 16777216/);
    expect(log).toMatch(/many" is left out: it has 513 files, more than 512/);
    for (const uri of ['skill://linked-file/passwd', 'skill://outside/SKILL.md', 'skill://huge/data.bin']) {
      expect((await ask('resources/read', { uri })).error).toMatchObject({ code: -32602 });
    }
  });

  it('K3: a file that is swapped after the start is refused, whatever is in its place', async () => {
    const { path, write } = await folder({ ...GOOD, 'other/SKILL.md': skillMd('other') });
    await write({ '../secret.txt': SECRET, '../elsewhere/b.txt': 'TEXT' });
    const { ask } = await startWith({ folders: [path] });
    const file = join(path, 'good/a/b.txt');
    const swaps: [string, () => Promise<unknown>][] = [
      ['a link out of the folder', () => symlink(join(path, '../secret.txt'), file)],
      ['another text of its size', () => writeFile(file, 'TEXT')],
      ['a huge file', () => writeFile(file, '').then(() => truncate(file, 2 ** 40))],
      ['a folder', () => mkdir(file)],
      ['a pipe', async () => spawnSync('mkfifo', [file])],
      ['nothing', async () => {}],
      [
        'the folder above as a link',
        () =>
          rm(join(path, 'good/a'), { recursive: true }).then(() => symlink('../../elsewhere', join(path, 'good/a'))),
      ],
    ];
    for (const [what, swap] of swaps) {
      await rm(file, { recursive: true, force: true });
      await swap();
      const { error, result } = await ask('resources/read', { uri: 'skill://good/a/b.txt' });
      expect([what, result, error?.code]).toEqual([what, undefined, -32603]);
      expect(error.message).not.toContain(path);
    }
    expect((await ask('resources/read', { uri: 'skill://other/SKILL.md' })).result).toBeDefined();
  });

  it('K3: a skill folder that becomes a link while it is watched is no longer served', async () => {
    const { path, write } = await folder(GOOD);
    await write({ '../outside/SKILL.md': skillMd('good') });
    const clock = new ManualClock();
    const { ask } = await startWith({ folders: [path], watch: true }, { clock });
    await rename(join(path, 'good'), join(path, '../before'));
    await symlink('../outside', join(path, 'good'));
    await clock.advance(1_000);
    await eventually(async () => expect((await ask('skills/list')).result.skills).toEqual([]));
    expect((await ask('resources/read', { uri: 'skill://good/SKILL.md' })).error).toMatchObject({ code: -32602 });
  });

  it('K3: a skill whose SKILL.md is wrong is left out, and the log names its file and the fault', async () => {
    const wrong: readonly (readonly [what: string, text: string, fault: RegExp])[] = [
      ['no frontmatter', '# Bad\n', /must begin with a "---" line/],
      ['an open frontmatter', '---\nname: bad\n', /no closing "---"/],
      ['no description', '---\nname: bad\n---\n', /"name" and "description"/],
      ['another name', skillMd('good'), /name "good" must match/],
      ['a name with capitals', '---\nname: Bad\ndescription: x\n---\n', /must be 1-64 lowercase letters/],
      ['a key of the prototype', '---\nname: bad\ndescription: x\n__proto__: {}\n---\n', /__proto__/],
      ['an alias bomb', '---\nname: bad\ndescription: x\na: &a [x, x]\nb: [*a, *a]\n---\n', /anchors, aliases/],
      ['deep nesting', `---\nname: bad\ndescription: ${'['.repeat(5_000)}\n---\n`, /nesting|flow/],
      ['bytes that are no text', '---\nname: bad\n\uD800', /frontmatter/],
    ];
    const files = wrong.map(([, text], at) => [`${at}/bad/SKILL.md`, text]);
    const { path } = await folder({ ...GOOD, ...Object.fromEntries(files) });
    const { app, ask } = await startWith({ folders: [path] });
    expect(uris((await ask('skills/list')).result.skills)).toEqual(['skill://good/SKILL.md']);
    for (const [at, [what, , fault]] of wrong.entries()) {
      const lines = app.log.texts('warn').filter((line) => line.includes(`${at}/bad/SKILL.md: `));
      expect([what, lines]).toEqual([what, [expect.stringMatching(fault)]]);
    }
  });

  it('K3: a broken skill is logged once, and is there when it is repaired', async () => {
    const { path, write } = await folder({ ...GOOD, 'bad/SKILL.md': '# Bad\n' });
    const clock = new ManualClock();
    const { app, ask } = await startWith({ folders: [path], watch: true }, { clock });
    const logged = () => app.log.texts('warn').filter((line) => line.includes('bad')).length;
    const atStart = logged();
    expect(atStart).toBeGreaterThan(0);
    await write({ 'good/SKILL.md': skillMd('good', 'Other words') });
    await clock.advance(1_000);
    const frontmatter = async () => (await ask('skills/list')).result.skills.at(-1).frontmatter;
    await eventually(async () => expect((await frontmatter()).description).toBe('Other words'));
    expect(logged()).toBe(atStart);
    await write({ 'bad/SKILL.md': skillMd('bad') });
    // The timer is set when the last look has ended.
    await eventually(async () => {
      await clock.advance(1_000);
      expect(uris((await ask('skills/list')).result.skills)).toEqual(['skill://bad/SKILL.md', 'skill://good/SKILL.md']);
    });
  });

  it('K6: a second skill with the URI of another one, while folders are watched, is logged once and changes nothing', async () => {
    const [one, other] = [await folder(GOOD), await folder({ 'other/SKILL.md': skillMd('other') })];
    const clock = new ManualClock();
    const { app, ask } = await startWith({ folders: [one.path, other.path], watch: true }, { clock });
    await other.write({ 'good/SKILL.md': skillMd('good'), 'new/SKILL.md': skillMd('new') });
    const logged = () => app.log.texts('error').filter((line) => line.includes('The skills stay as they are'));
    await clock.advance(1_000);
    await eventually(() => expect(logged()).toHaveLength(1));
    expect(logged()[0]).toMatch(/Two MCP handlers of kind "skill".*good\/SKILL\.md/);
    expect(uris((await ask('skills/list')).result.skills)).toEqual(['skill://good/SKILL.md', 'skill://other/SKILL.md']);
    await rm(join(one.path, 'good'), { recursive: true });
    await eventually(async () => {
      await clock.advance(1_000);
      expect(uris((await ask('skills/list')).result.skills)).toContain('skill://new/SKILL.md');
    });
    expect(logged()).toHaveLength(1);
  });

  it('K3: more skills than fit on two pages are listed, page by page, and each is found', async () => {
    const names = Array.from({ length: 25 }, (_, n) => `skill-${n}`);
    const { path } = await folder(Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillMd(name)])));
    const { ask } = await startWith({ folders: [path] }, { pageSize: 10 });
    const found: string[] = [];
    let pages = 0;
    for (let cursor: string | undefined; pages === 0 || cursor !== undefined; pages++) {
      const { skills, nextCursor } = (await ask('skills/list', { ...(cursor && { cursor }) })).result;
      found.push(...uris(skills));
      cursor = nextCursor;
    }
    expect([pages, found]).toEqual([3, names.map((name) => `skill://${name}/SKILL.md`).toSorted()]);
    expect((await ask('resources/read', { uri: 'skill://skill-24/SKILL.md' })).result.contents).toHaveLength(1);
  });
});

describe.each(ONE_ADAPTER)('what a method with @Skill() may return, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, module: { imports: [McpSkillsModule.forRoot()] } });
  const folder = skillFolders();
  let returned: unknown;

  @Injectable()
  class Odd {
    @Skill({ name: 'odd', description: 'Is odd.' })
    odd(): never {
      return returned as never;
    }
  }

  it.each<[string, unknown, RegExp]>([
    ['a number', 7, /must return the text of SKILL\.md, or an object.*it returned 7/],
    ['no SKILL.md', {}, /it returned no "SKILL\.md"/],
    ['a path above', { 'SKILL.md': 'x', '../x': 'y' }, /the path "\.\.\/x" is not below the folder/],
    ['an absolute path', { 'SKILL.md': 'x', '/etc/passwd': 'y' }, /the path "\/etc\/passwd"/],
    ['a path with an empty name', { 'SKILL.md': 'x', 'a//b': 'y' }, /the path "a\/\/b"/],
    ['a hidden file', { 'SKILL.md': 'x', '.env': 'y' }, /the path "\.env".*hidden/],
    ['a backslash', { 'SKILL.md': 'x', 'a\\b': 'y' }, /the path/],
    ['a file that is no text', { 'SKILL.md': 'x', 'a.txt': 1 }, /its file "a\.txt" is 1/],
    ['two descriptions', '---\nname: odd\n---\n', /begins with "---", and @Skill\(\) has a "description"/],
    ['too many bytes', { 'SKILL.md': 'x', 'a.bin': new Uint8Array(16 * 1024 ** 2) }, /more than 16777216/],
  ])('K2: %s fails with a generic text, and the log says why', async (_, value, reason) => {
    returned = value;
    const app = await start({ providers: [Odd], errorDetails: false });
    const client = new ModernClient(app.url);
    const { error } = await client.ask('skills/get', { uri: 'skill://odd/SKILL.md' });
    expect(error).toMatchObject({ code: -32603, message: expect.stringContaining('See the server log') });
    expect((await client.ask('skills/list')).result.skills).toEqual([]);
    expect(app.log.texts('error').join('\n')).toMatch(reason);
  });

  it('K2: names with the characters of URIs are read by the URIs of their entry', async () => {
    const names = ['a b.txt', 'ü.txt', '100%.txt', 'a?b#c.txt', '__proto__', 'constructor', "it's (1).txt"];
    @Injectable()
    class Named {
      @Skill({ name: 'named', description: 'Has odd names.' })
      named(): Record<string, string> {
        return Object.fromEntries([['SKILL.md', '# Named'], ...names.map((name) => [name, name])]);
      }
    }
    const app = await start({ providers: [Named] });
    const client = new ModernClient(app.url);
    const { skill } = (await client.ask('skills/get', { uri: 'skill://named/SKILL.md' })).result;
    const read = new Set<string>();
    for (const uri of uris(skill.resources)) {
      if (uri.endsWith('SKILL.md')) continue;
      read.add((await client.ask('resources/read', { uri })).result.contents[0].text);
    }
    expect(read).toEqual(new Set(names));
    for (const uri of ['SKILL://named/%c3%bc.txt', 'skill://%6Eamed/%C3%BC.txt']) {
      const { result } = await client.ask('resources/read', { uri });
      expect(result.contents).toEqual([{ uri, mimeType: 'text/plain', text: 'ü.txt' }]);
    }
    expect((await client.ask('skills/get', { uri: 'SKILL://named/%53KILL.md' })).result).toBeDefined();
  });

  it('K3: readSkillFolder() refuses a folder that is no skill, or has a link', async () => {
    const { path, write } = await folder({ ...GOOD, 'empty/x.txt': '' });
    await write({ '../secret.txt': SECRET, 'linked/SKILL.md': skillMd('linked') });
    await symlink(join(path, '../secret.txt'), join(path, 'linked/secret'));
    await expect(readSkillFolder(join(path, 'empty'))).rejects.toThrow(/is not a skill: it has no "SKILL\.md"/);
    await expect(readSkillFolder(join(path, 'linked'))).rejects.toThrow(
      /is not a skill: secret: it is a symbolic link/,
    );
    await expect(readSkillFolder(join(path, 'none'))).rejects.toThrow(/cannot be read: ENOENT/);
    expect(Object.keys(await readSkillFolder(join(path, 'good')))).toEqual(['SKILL.md', 'a/b.txt']);
  });
});
