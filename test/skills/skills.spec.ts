import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Injectable, UseGuards } from '@nestjs/common';
import { type McpContext, McpCtx, Resource } from 'nestjs-mcp-streamable';
import {
  McpSkillsModule,
  readSkillFolder,
  Skill,
  type McpSkillContent,
  type McpSkillsOptions,
} from 'nestjs-mcp-streamable/skills';
import { ManualClock } from 'nestjs-mcp-streamable/testing';
import { describe, expect, it } from 'vitest';
import { asker, type Era, ERAS } from '../auth/protected-apps.js';
import { Roles, RolesGuard } from '../handlers/roles.js';
import { ADAPTERS, ONE_ADAPTER, type TestApp, type TestAppOptions } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { RawClient } from '../support/raw-client.js';
import { eventually, testApps } from '../support/test-apps.js';
import { as } from '../support/users.js';
import { skillFolders, skillMd } from './folders.js';

const SKILLS = 'io.modelcontextprotocol/skills';
const sha256 = (content: string | Uint8Array): string => `sha256:${createHash('sha256').update(content).digest('hex')}`;

const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==',
  'base64',
);
const FILES = {
  'git-workflow/SKILL.md': skillMd('git-workflow', '"Commits: small, with a reason"'),
  'acme/billing/refunds/SKILL.md': skillMd('refunds'),
  'acme/billing/refunds/templates/email.md': '# Sorry\n',
  'acme/billing/refunds/templates/de/brief.md': '# Entschuldigung ü\n',
  'acme/billing/refunds/logo.png': PNG,
};
const REFUNDS = 'skill://acme/billing/refunds';

@Injectable()
class Team {
  @Skill({ name: 'onboarding', description: 'Explains the house: "who does what".' })
  onboarding(@McpCtx() { principal }: McpContext): string {
    return `# Welcome, ${principal ?? 'guest'}\n`;
  }

  @UseGuards(RolesGuard)
  @Roles(['staff'])
  @Skill({ name: 'escalation', description: 'Escalates a ticket.', prefix: 'acme' })
  escalation(): McpSkillContent {
    return { 'SKILL.md': '# Escalate\n', 'people/on call.txt': 'Ann', 'logo.png': PNG };
  }
}

/** Asks as a client of an era does. */
async function caller(app: TestApp, era: Era, headers: Record<string, string> = as('ann')) {
  const { request } = await asker(app, era, headers);
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  return async (method: string, params: Record<string, unknown> = {}): Promise<any> => {
    const { result, error } = await (await request(method, params)).json();
    return error ?? result;
  };
}

// oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
const uris = (entries: any[]): string[] => entries.map(({ uri }) => uri);

describe.each(ADAPTERS)('skills of a folder, on %s', (adapter) => {
  const start = testApps(adapter);
  const folder = skillFolders();
  const startWith = async (options: McpSkillsOptions, more: Partial<TestAppOptions> = {}) =>
    start({ module: { imports: [McpSkillsModule.forRoot(options)] }, ...more });

  it.each(ERAS)(
    'K1: skills of a folder are declared, listed, got and read by a client that declares nothing (%s)',
    async (era) => {
      const { path } = await folder(FILES);
      const app = await startWith({ folders: [path] });
      const ask = await caller(app, era);
      const { skills, nextCursor } = await ask('skills/list');
      expect(uris(skills)).toEqual([`${REFUNDS}/SKILL.md`, 'skill://git-workflow/SKILL.md']);
      expect(nextCursor).toBeUndefined();
      const text = FILES['git-workflow/SKILL.md'];
      expect(skills[1]).toEqual({
        uri: 'skill://git-workflow/SKILL.md',
        frontmatter: { name: 'git-workflow', description: 'Commits: small, with a reason' },
        resources: [{ uri: 'skill://git-workflow/SKILL.md', digest: sha256(text), size: Buffer.byteLength(text) }],
      });
      expect((await ask('skills/get', { uri: skills[0].uri })).skill).toEqual(skills[0]);
      const { contents } = await ask('resources/read', { uri: skills[1].uri });
      expect(contents).toEqual([{ uri: skills[1].uri, mimeType: 'text/markdown', text }]);
    },
  );

  it('K1: the capabilities of the endpoint have the extension, with directory reads, in both eras', async () => {
    const { path } = await folder(FILES);
    const app = await startWith({ folders: [path] });
    const { result } = await new ModernClient(app.url).ask('server/discover');
    expect(result.capabilities.extensions).toEqual({ [SKILLS]: { directoryRead: true } });
    expect(result.capabilities.resources).toBeDefined();
    const client = new RawClient(app.url);
    const { capabilities } = (await (await client.post(client.initializeMessage())).json()).result;
    expect(capabilities.extensions).toEqual({ [SKILLS]: { directoryRead: true } });
  });

  it('K2: an entry has each file of its skill, with the digest and size of the bytes that are read', async () => {
    const { path } = await folder(FILES);
    const ask = await caller(await startWith({ folders: [path] }), 'modern');
    const { skill } = await ask('skills/get', { uri: `${REFUNDS}/SKILL.md` });
    expect(uris(skill.resources)).toEqual([
      `${REFUNDS}/SKILL.md`,
      `${REFUNDS}/logo.png`,
      `${REFUNDS}/templates/de/brief.md`,
      `${REFUNDS}/templates/email.md`,
    ]);
    for (const { uri, digest, size } of skill.resources) {
      const [content] = (await ask('resources/read', { uri })).contents;
      const bytes = content.blob ? Buffer.from(content.blob, 'base64') : Buffer.from(content.text);
      expect([sha256(bytes), bytes.length]).toEqual([digest, size]);
    }
  });

  it('K5: a folder of a skill is read, level by level', async () => {
    const { path } = await folder(FILES);
    const ask = await caller(await startWith({ folders: [path] }), 'modern');
    const read = async (uri: string) => (await ask('resources/directory/read', { uri })).resources;
    expect(await read(REFUNDS)).toEqual([
      { uri: `${REFUNDS}/SKILL.md`, name: 'SKILL.md', mimeType: 'text/markdown', size: expect.any(Number) },
      { uri: `${REFUNDS}/logo.png`, name: 'logo.png', mimeType: 'image/png', size: PNG.length },
      { uri: `${REFUNDS}/templates`, name: 'templates', mimeType: 'inode/directory' },
    ]);
    expect(uris(await read(`${REFUNDS}/templates`))).toEqual([
      `${REFUNDS}/templates/de`,
      `${REFUNDS}/templates/email.md`,
    ]);
    for (const uri of [`${REFUNDS}/SKILL.md`, `${REFUNDS}/none`, `${REFUNDS}/`, 'skill://acme', 'skill://', '/', 7]) {
      expect(await ask('resources/directory/read', { uri })).toMatchObject({ code: -32602 });
    }
  });
});

describe.each(ONE_ADAPTER)('an endpoint with skills, on %s', (adapter) => {
  const start = testApps(adapter);
  const folder = skillFolders();
  const startWith = async (options: McpSkillsOptions, more: Partial<TestAppOptions> = {}) =>
    start({ module: { imports: [McpSkillsModule.forRoot(options)] }, ...more });

  it('K1: resources/list has the SKILL.md of each skill behind the other resources', async () => {
    @Injectable()
    class Terms {
      @Resource({ uri: 'shop://terms', name: 'terms' })
      terms(): string {
        return 'Be kind.';
      }
    }
    const { path } = await folder(FILES);
    const ask = await caller(await startWith({ folders: [path] }, { providers: [Terms] }), 'legacy');
    const { resources } = await ask('resources/list');
    expect(uris(resources)).toEqual(['shop://terms', `${REFUNDS}/SKILL.md`, 'skill://git-workflow/SKILL.md']);
    expect(resources[1]).toEqual({
      uri: `${REFUNDS}/SKILL.md`,
      name: 'refunds',
      description: 'Does refunds.',
      mimeType: 'text/markdown',
      size: Buffer.byteLength(FILES['acme/billing/refunds/SKILL.md']),
    });
  });

  it('K1: an endpoint with skills lists come in pages, whose cursors hold when a skill appears between two', async () => {
    const names = ['a', 'b', 'c', 'd', 'e'];
    const files = Object.fromEntries(names.map((name) => [`${name}/SKILL.md`, skillMd(name)]));
    const { path, write } = await folder(files);
    const clock = new ManualClock();
    const app = await startWith({ folders: [path], watch: true }, { pageSize: 2, clock });
    const ask = await caller(app, 'modern');
    const first = await ask('skills/list');
    expect(uris(first.skills)).toEqual(['skill://a/SKILL.md', 'skill://b/SKILL.md']);
    await write({ 'aa/SKILL.md': skillMd('aa') });
    await clock.advance(1_000);
    await eventually(async () => expect(uris((await ask('skills/list')).skills)).toContain('skill://aa/SKILL.md'));
    const second = await ask('skills/list', { cursor: first.nextCursor });
    expect(uris(second.skills)).toEqual(['skill://c/SKILL.md', 'skill://d/SKILL.md']);
    const third = await ask('skills/list', { cursor: second.nextCursor });
    expect(uris(third.skills)).toEqual(['skill://e/SKILL.md']);
    expect(third.nextCursor).toBeUndefined();
    const children = await ask('resources/directory/read', { uri: 'skill://a' });
    expect(children).toMatchObject({ resources: [{ uri: 'skill://a/SKILL.md' }] });
    for (const cursor of ['x', '', 7]) {
      expect(await ask('skills/list', { cursor })).toMatchObject({
        code: -32602,
        message: expect.stringContaining('not valid'),
      });
    }
  });

  it('K1: results have the cache hints of lists in the modern era, and none in the other', async () => {
    const { path } = await folder(FILES);
    const listCache = { ttlMs: 5_000, scope: 'public' } as const;
    const app = await startWith({ folders: [path] }, { guards: [], listCache });
    for (const [method, params] of [
      ['skills/list', {}],
      ['skills/get', { uri: `${REFUNDS}/SKILL.md` }],
      ['resources/directory/read', { uri: REFUNDS }],
    ] as const) {
      expect(await (await caller(app, 'modern', {}))(method, params)).toMatchObject({
        ttlMs: 5_000,
        cacheScope: 'public',
      });
      expect(await (await caller(app, 'legacy', {}))(method, params)).not.toHaveProperty('ttlMs');
    }
  });

  it('K2: a skill inside another one is a skill of its own, and its files are those of both', async () => {
    const { path } = await folder({ 'pdf/SKILL.md': skillMd('pdf'), 'pdf/forms/SKILL.md': skillMd('forms') });
    const ask = await caller(await startWith({ folders: [path] }), 'modern');
    const { skills } = await ask('skills/list');
    expect(skills.map(({ uri, resources }: { uri: string; resources: [] }) => [uri, uris(resources)])).toEqual([
      ['skill://pdf/SKILL.md', ['skill://pdf/SKILL.md', 'skill://pdf/forms/SKILL.md']],
      ['skill://pdf/forms/SKILL.md', ['skill://pdf/forms/SKILL.md']],
    ]);
    expect(uris((await ask('resources/directory/read', { uri: 'skill://pdf' })).resources)).toEqual([
      'skill://pdf/SKILL.md',
      'skill://pdf/forms',
    ]);
  });

  it('K2: a skill of a method has a frontmatter from its options, and digests of what it returns to the caller', async () => {
    const ask = await caller(await startWith({}, { providers: [Team] }), 'modern');
    const { skills } = await ask('skills/list');
    expect(uris(skills)).toEqual(['skill://onboarding/SKILL.md']);
    const [{ uri, frontmatter, resources }] = skills;
    expect(frontmatter).toEqual({ name: 'onboarding', description: 'Explains the house: "who does what".' });
    const [{ text, mimeType }] = (await ask('resources/read', { uri })).contents;
    expect(mimeType).toBe('text/markdown');
    expect(text).toContain('# Welcome, ann\n');
    expect(resources).toEqual([{ uri, digest: sha256(text), size: Buffer.byteLength(text) }]);
  });

  it.each(ERAS)('K4: a skill exists for the callers alone that its guards accept (%s)', async (era) => {
    const app = await startWith({}, { providers: [Team] });
    const ESCALATION = 'skill://acme/escalation';
    const staff = await caller(app, era, as('ann', 'staff'));
    const guest = await caller(app, era, as('bob', 'guest'));
    expect(uris((await staff('skills/list')).skills)).toContain(`${ESCALATION}/SKILL.md`);
    expect(uris((await staff('resources/list')).resources)).toContain(`${ESCALATION}/SKILL.md`);
    expect(uris((await guest('skills/list')).skills)).toEqual(['skill://onboarding/SKILL.md']);
    expect(uris((await guest('resources/list')).resources)).toEqual(['skill://onboarding/SKILL.md']);
    const file = `${ESCALATION}/people/on%20call.txt`;
    expect((await staff('resources/read', { uri: file })).contents).toEqual([
      { uri: file, mimeType: 'text/plain', text: 'Ann' },
    ]);
    expect((await staff('skills/get', { uri: `${ESCALATION}/SKILL.md` })).skill.resources).toHaveLength(3);
    expect(uris((await staff('resources/directory/read', { uri: ESCALATION })).resources)).toHaveLength(3);
    // The answers are those for a skill that is not there.
    for (const [method, uri] of [
      ['skills/get', `${ESCALATION}/SKILL.md`],
      ['resources/directory/read', ESCALATION],
      ['resources/read', file],
    ] as const) {
      const unknown = uri.replace('escalation', 'nothing');
      const denied = await guest(method, { uri });
      expect(JSON.stringify(denied).replaceAll('escalation', 'nothing')).toEqual(
        JSON.stringify(await guest(method, { uri: unknown })),
      );
    }
  });

  it('K4: a list of skills that depends on its caller is cached for that caller alone', async () => {
    const listCache = { ttlMs: 5_000, scope: 'public' } as const;
    const app = await startWith({}, { providers: [Team], guards: [], listCache });
    const ask = await caller(app, 'modern', {});
    expect(await ask('skills/list')).toMatchObject({ cacheScope: 'private' });
  });

  it('K4: a method that returns nothing, or throws, leaves out its skill alone', async () => {
    @Injectable()
    class Odd {
      @Skill({ name: 'mine', description: 'Of ann alone.' })
      mine(_args: object, { principal }: McpContext): McpSkillContent {
        return principal === 'ann' ? '# Mine' : undefined;
      }
      @Skill({ name: 'broken', description: 'Fails.' })
      broken(): McpSkillContent {
        throw new Error('no database');
      }
    }
    const app = await startWith({}, { providers: [Odd, Team] });
    const [ann, bob] = [await caller(app, 'modern', as('ann')), await caller(app, 'modern', as('bob'))];
    const others = ['skill://onboarding/SKILL.md'];
    expect(uris((await ann('skills/list')).skills)).toEqual(['skill://mine/SKILL.md', ...others]);
    expect(uris((await bob('skills/list')).skills)).toEqual(others);
    expect(await bob('skills/get', { uri: 'skill://mine/SKILL.md' })).toMatchObject({ code: -32602 });
    expect(app.log.texts('error').join()).toContain('no database');
  });

  it('K2: a dynamic skill has no digests, and lists do not run its method', async () => {
    let runs = 0;
    @Injectable()
    class Status {
      @Skill({ name: 'status', description: 'Tells the state of the shop.', dynamic: true })
      status(): string {
        return `# Run ${++runs}\n`;
      }
    }
    const ask = await caller(await startWith({}, { providers: [Status] }), 'modern');
    const uri = 'skill://status/SKILL.md';
    const entry = {
      uri,
      frontmatter: { name: 'status', description: 'Tells the state of the shop.' },
      resources: 'dynamic',
    };
    expect((await ask('skills/list')).skills).toEqual([entry]);
    expect((await ask('skills/get', { uri })).skill).toEqual(entry);
    expect(runs).toBe(0);
    expect((await ask('resources/read', { uri })).contents[0].text).toContain('# Run 1\n');
    expect((await ask('resources/directory/read', { uri: 'skill://status' })).resources).toHaveLength(1);
  });

  it('K4: a folder that a method reads is guarded as the method', async () => {
    const { path } = await folder(FILES);
    @Injectable()
    class Internal {
      @UseGuards(RolesGuard)
      @Roles(['staff'])
      @Skill({ name: 'refunds', prefix: 'internal' })
      refunds(): Promise<McpSkillContent> {
        return readSkillFolder(join(path, 'acme/billing/refunds'));
      }
    }
    const app = await startWith({}, { providers: [Internal] });
    const { skills } = await (await caller(app, 'modern', as('ann', 'staff')))('skills/list');
    expect(skills).toMatchObject([{ uri: 'skill://internal/refunds/SKILL.md', frontmatter: { name: 'refunds' } }]);
    expect(skills[0].resources).toHaveLength(4);
    expect((await (await caller(app, 'modern', as('bob', 'guest')))('skills/list')).skills).toEqual([]);
  });

  it('K6: changes in a watched folder are announced, and served without a restart', async () => {
    const { path, write } = await folder(FILES);
    const clock = new ManualClock();
    const app = await startWith({ folders: [path], watch: true }, { clock });
    const client = await new RawClient(app.url, as('ann')).initialize();
    const stream = await client.listen();
    const uri = `${REFUNDS}/templates/email.md`;
    await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'resources/subscribe', params: { uri } });
    const ask = await caller(app, 'modern');
    const changed = async (change: Promise<unknown>, methods: string[]): Promise<void> => {
      const before = stream.messages.length;
      await change;
      await clock.advance(1_000);
      await eventually(() =>
        expect(new Set(stream.messages.slice(before).map(({ method }) => method))).toEqual(new Set(methods)),
      );
    };
    const LIST = 'notifications/resources/list_changed';
    await changed(write({ 'new/SKILL.md': skillMd('new') }), [LIST]);
    expect((await ask('skills/get', { uri: 'skill://new/SKILL.md' })).skill.frontmatter.name).toBe('new');
    await changed(write({ 'acme/billing/refunds/templates/email.md': '# Very sorry\n' }), [
      LIST,
      'notifications/resources/updated',
    ]);
    expect((await ask('resources/read', { uri })).contents[0].text).toBe('# Very sorry\n');
    await changed(rm(join(path, 'new'), { recursive: true }), [LIST]);
    expect(await ask('skills/get', { uri: 'skill://new/SKILL.md' })).toMatchObject({ code: -32602 });
  });

  it('K6: without "watch", a changed file is refused until the app starts again, and the log says what to do', async () => {
    const { path, write } = await folder(FILES);
    const app = await startWith({ folders: [path] });
    const ask = await caller(app, 'modern');
    await write({ 'git-workflow/SKILL.md': skillMd('git-workflow', 'Another text') });
    const answer = await ask('resources/read', { uri: 'skill://git-workflow/SKILL.md' });
    expect(answer).toMatchObject({
      code: -32603,
      message: expect.stringContaining('has changed since its skill was listed'),
    });
    expect(app.log.texts('warn').join()).toMatch(/git-workflow\/SKILL\.md.*set the option "watch"/);
  });
});
