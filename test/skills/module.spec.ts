import { Injectable, type ModuleMetadata } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import {
  McpSkillsModule,
  type McpSkillsModuleAsyncOptions,
  type McpSkillsOptions,
  Skill,
  type SkillOptions,
} from 'nestjs-mcp-streamable/skills';
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify';
import { createAppFetch, expectNothingLeft, ManualClock } from 'nestjs-mcp-streamable/testing';
import { McpClock } from 'nestjs-mcp-streamable/stores';
import { afterEach, describe, expect, it } from 'vitest';
import { modernMeta } from '../support/modern-client.js';
import { skillFolders, skillMd } from './folders.js';

const apps: NestFastifyApplication[] = [];
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close();
});

const endpoint = (options: Partial<McpStreamableOptions> & { name?: string; path?: string } = {}) =>
  McpStreamableModule.forRoot({ serverInfo: { name: 'skills', version: '1.0.0' }, ...options });

async function start(metadata: ModuleMetadata, clock = new ManualClock()): Promise<NestFastifyApplication> {
  const testing = await Test.createTestingModule(metadata).overrideProvider(McpClock).useValue(clock).compile();
  const app = testing.createNestApplication<NestFastifyApplication>(new FastifyAdapter(), { logger: false });
  apps.push(app);
  await app.init();
  return app;
}
const refused = (metadata: ModuleMetadata, message: RegExp) => expect(start(metadata)).rejects.toThrow(message);

async function skillsAt(app: NestFastifyApplication, path: string): Promise<string[]> {
  const body = { jsonrpc: '2.0', id: 1, method: 'skills/list', params: { _meta: modernMeta() } };
  const fetch = await createAppFetch(app);
  const response = await fetch(`http://localhost/${path}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': 'skills/list',
    },
    body: JSON.stringify(body),
  });
  const { result } = (await response.json()) as { result: { skills: { uri: string }[] } };
  return result.skills.map(({ uri }) => uri);
}

@Injectable()
class Refunds {
  @Skill({ name: 'refunds', description: 'Refunds.' })
  refunds(): string {
    return '# Refunds';
  }
}

describe('McpSkillsModule', () => {
  const folder = skillFolders();

  it.each<[unknown, RegExp]>([
    [{ folder: ['x'] }, /no option "folder".*Did you mean "folders"/],
    [{ folders: 'skills' }, /"folders" must be an array/],
    [{ folders: [''] }, /"folders"/],
    [{ watch: 'yes' }, /"watch"/],
    [{ endpoint: '' }, /"endpoint"/],
    ['x', /"options"/],
  ])('McpSkillsModule refuses wrong options (%#)', (options, message) => {
    expect(() => McpSkillsModule.forRoot(options as McpSkillsOptions)).toThrow(message);
  });

  it('McpSkillsModule refuses options that stand beside the factory', () => {
    const options = { folders: [], useFactory: () => ({}) } as unknown as McpSkillsModuleAsyncOptions;
    expect(() => McpSkillsModule.forRootAsync(options)).toThrow(/"folders".*Return it from the factory/);
  });

  it('McpSkillsModule takes its options from a factory', async () => {
    const { path } = await folder({ 'a/SKILL.md': skillMd('a') });
    const skills = McpSkillsModule.forRootAsync({ useFactory: () => Promise.resolve({ folders: [path] }) });
    expect(await skillsAt(await start({ imports: [endpoint(), skills] }), 'mcp')).toEqual(['skill://a/SKILL.md']);
  });

  it('McpSkillsModule does not start with a folder that is none, and says what to give', async () => {
    const { path } = await folder({ 'a/SKILL.md': skillMd('a') });
    const withFolder = (given: string) => ({ imports: [endpoint(), McpSkillsModule.forRoot({ folders: [given] })] });
    await refused(
      withFolder(`${path}/none`),
      /The folder of skills ".*none" cannot be read: ENOENT.*working directory/,
    );
    await refused(withFolder(`${path}/a/SKILL.md`), /is not a folder, but the file/);
  });

  it('McpSkillsModule belongs to one endpoint', async () => {
    const [a, b] = [endpoint({ name: 'a', path: 'a' }), endpoint({ name: 'b', path: 'b' })];
    await refused({ imports: [a, b, McpSkillsModule.forRoot()] }, /has no endpoint/);
    await refused({ imports: [a, McpSkillsModule.forRoot({ endpoint: 'c' })] }, /"c"/);
    await refused(
      { imports: [endpoint(), McpSkillsModule.forRoot(), McpSkillsModule.forRoot({ watch: false })] },
      /has two McpSkillsModule/,
    );
    const server = (() => {}) as unknown as McpStreamableOptions['server'];
    await refused({ imports: [endpoint({ server }), McpSkillsModule.forRoot()] }, /option "server"/);
  });

  it('K4: McpSkillsModule serves the skills of an endpoint at that endpoint alone', async () => {
    const { path } = await folder({ 'a/SKILL.md': skillMd('a') });
    const app = await start({
      imports: [
        endpoint({ name: 'a', path: 'a' }),
        endpoint({ name: 'b', path: 'b' }),
        McpSkillsModule.forRoot({ endpoint: 'a', folders: [path] }),
        McpSkillsModule.forRoot({ endpoint: 'b' }),
      ],
    });
    expect(await skillsAt(app, 'a')).toEqual(['skill://a/SKILL.md']);
    expect(await skillsAt(app, 'b')).toEqual([]);
  });

  it('K3: McpSkillsModule does not start with two skills of one URI, and names both', async () => {
    const [one, other] = [
      await folder({ 'refunds/SKILL.md': skillMd('refunds') }),
      await folder({ 'refunds/SKILL.md': skillMd('refunds') }),
    ];
    const folders = [one.path, other.path];
    await refused(
      { imports: [endpoint(), McpSkillsModule.forRoot({ folders })] },
      /Two MCP handlers of kind "skill".*skill:\/\/refunds\/SKILL\.md.*and/,
    );
    await refused(
      { imports: [endpoint(), McpSkillsModule.forRoot({ folders: [one.path] })], providers: [Refunds] },
      /Two MCP handlers.*Refunds\.refunds.*refunds\/SKILL\.md/,
    );
    @Injectable()
    class Others {
      @Skill({ name: 'refunds', description: 'Others.' })
      again(): string {
        return '';
      }
    }
    await refused(
      { imports: [endpoint(), McpSkillsModule.forRoot()], providers: [Refunds, Others] },
      /Refunds\.refunds.*Others\.again/,
    );
  });

  it('McpSkillsModule leaves no timer behind, also while it watches', async () => {
    const { path } = await folder({ 'a/SKILL.md': skillMd('a') });
    const clock = new ManualClock();
    const app = await start(
      { imports: [endpoint(), McpSkillsModule.forRoot({ folders: [path], watch: true })] },
      clock,
    );
    await expectNothingLeft(app);
    await app.close();
    expect(clock.pending).toBe(0);
  });
});

describe('@Skill()', () => {
  it('@Skill() stops the start of an app without McpSkillsModule, with what to import', async () => {
    await refused(
      { imports: [endpoint()], providers: [Refunds] },
      /Refunds\.refunds.*Import McpSkillsModule\.forRoot\(\) of "nestjs-mcp-streamable\/skills"/,
    );
  });

  it.each<[object, RegExp]>([
    [{ name: '' }, /"name" must be 1 to 64/],
    [{ name: 'Refunds' }, /"name"/],
    [{ name: '../x' }, /"name"/],
    [{ name: 'a--b' }, /"name"/],
    [{ name: 'a'.repeat(65) }, /"name"/],
    [{ name: 'a', description: '' }, /"description" must be a text of 1 to 1024/],
    [{ name: 'a', description: 'x'.repeat(1_025) }, /"description"/],
    [{ name: 'a', description: 'x', prefix: '../etc' }, /"prefix"/],
    [{ name: 'a', description: 'x', prefix: '' }, /"prefix"/],
    [{ name: 'a', description: 'x', prefix: 'a//b' }, /"prefix"/],
    [{ name: 'a', dynamic: true }, /"dynamic", and has no "description"/],
    [{ name: 'a', description: 'x', dynamic: 1 }, /"dynamic" must be true or false/],
    [{ name: 'a', description: 'x', timeoutMs: 0 }, /"timeoutMs"/],
  ])('@Skill() refuses wrong options (%#)', async (options, message) => {
    @Injectable()
    class Odd {
      @Skill(options as SkillOptions)
      odd(): string {
        return '';
      }
    }
    await refused({ imports: [endpoint(), McpSkillsModule.forRoot()], providers: [Odd] }, message);
  });

  it('@Skill() refuses an option that it does not have', () => {
    const declare = () => {
      class Odd {
        @Skill({ name: 'a', folder: 'x' } as unknown as SkillOptions)
        odd(): string {
          return '';
        }
      }
      return Odd;
    };
    expect(declare).toThrow(/@Skill\(\) has no option "folder"/);
  });
});
