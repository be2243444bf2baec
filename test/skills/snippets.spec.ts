import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { McpSkillsModule } from 'nestjs-mcp-streamable/skills';
import { ShopSkills } from '../../examples/snippets/shop-skills.js';
import type { trustingGuard } from '../support/users.js';
import { TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';

/** What the guard of the example reads. */
const staff = {
  canActivate(context: Parameters<typeof trustingGuard.canActivate>[0]): boolean {
    context.switchToHttp().getRequest().user = { sub: 'ann', roles: ['staff'] };
    return true;
  },
};

it('the code of docs/extensions.md serves a folder, and a skill of a method', async () => {
  const folders = [fileURLToPath(new URL('../../examples/snippets/skills', import.meta.url))];
  const app = await TestApp.start({
    adapter: 'fastify',
    providers: [ShopSkills],
    guards: [staff],
    module: { imports: [McpSkillsModule.forRoot({ folders })] },
  });
  const client = new ModernClient(app.url);
  const { skills } = (await client.ask('skills/list')).result;
  // The folder of the other method is not there.
  expect(skills.map(({ uri }: { uri: string }) => uri)).toEqual([
    'skill://order-lookup/SKILL.md',
    'skill://refunds/SKILL.md',
  ]);
  const { contents } = (await client.ask('resources/read', { uri: 'skill://refunds/SKILL.md' })).result;
  expect(contents[0].text).toContain('You act for ann.');
  await app.close();
});
