import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';
import { Injectable } from '@nestjs/common';
import { McpSkillsModule, Skill, type McpSkillContent } from 'nestjs-mcp-streamable/skills';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { loneFetch } from '../support/ways.js';
import { skillFolders, skillMd } from './folders.js';

@Injectable()
class Shop {
  @Skill({ name: 'refunds', description: 'Refunds: "all" or a part.\nUse it when a customer wants money — 💶 — back.' })
  refunds(): McpSkillContent {
    return {
      'SKILL.md': '# Refunds\r\n',
      'templates/e mail.md': 'Dear {name}',
      'logo.png': new Uint8Array([137, 0, 255]),
    };
  }
  @Skill({ name: 'status', description: 'Tells the state.', dynamic: true })
  status(): McpSkillContent {
    return { 'SKILL.md': `# ${Math.random()}`, 'now.txt': 'open' };
  }
}

describe.each(ADAPTERS)('the official client, which verifies all that it reads, on %s', (adapter) => {
  const start = testApps(adapter, { guards: [] });
  const folder = skillFolders();
  const clients: Client[] = [];
  afterEach(async () => {
    for (const client of clients.splice(0)) await client.close();
  });
  const connect = async (app: TestApp, mode: 'legacy' | 'auto'): Promise<Client> => {
    const client = new Client({ name: 'official', version: '1.0.0' }, { versionNegotiation: { mode } });
    clients.push(client);
    await client.connect(new StreamableHTTPClientTransport(new URL(app.url), { fetch: loneFetch }));
    return client;
  };

  it.each(['legacy', 'auto'] as const)(
    'K2: the official client lists, gets and reads each skill and each file (%s)',
    async (mode) => {
      const { path } = await folder({
        'acme/git/SKILL.md': skillMd('git', '"Commits: small"', '# Git\n\nÜ\n'),
        'acme/git/refs/ü (1).md': '\uFEFFWith a byte order mark',
        'acme/git/bin/x.dat': new Uint8Array([0, 159, 146, 150]),
      });
      const app = await start({
        providers: [Shop],
        pageSize: 2,
        module: { imports: [McpSkillsModule.forRoot({ folders: [path] })] },
      });
      const skills = new SkillsClient(await connect(app, mode));
      expect([skills.supported, skills.directoryRead]).toEqual([true, true]);
      const { skills: entries } = await skills.list();
      expect(entries.map(({ uri }) => uri)).toEqual([
        'skill://acme/git/SKILL.md',
        'skill://refunds/SKILL.md',
        'skill://status/SKILL.md',
      ]);
      for (const entry of entries) {
        expect((await skills.get(entry.uri)).skill).toEqual(entry);
        const { frontmatter, verified } = await skills.read(entry);
        expect([frontmatter, verified]).toEqual([entry.frontmatter, entry.resources !== 'dynamic']);
        for (const { uri, size } of entry.resources === 'dynamic' ? [] : entry.resources) {
          expect((await skills.read(entry, uri)).bytes).toHaveLength(size);
        }
      }
      expect((await skills.read(entries[2]!, 'now.txt')).text).toBe('open');
      const { resources } = await skills.readDirectory('skill://refunds');
      expect(resources.map(({ name }) => name)).toEqual(['SKILL.md', 'logo.png', 'templates']);
    },
  );
});
