import { existsSync, readdirSync, readFileSync } from 'node:fs';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = new URL('../../', import.meta.url);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

/** Entries besides the main one: folders of `src` with an index. */
const folders = readdirSync(new URL('src/', root)).filter((name) => existsSync(new URL(`src/${name}/index.ts`, root)));

/** What an index exports. An index lists its names: another rule forbids `export *`. */
function namesOf(entry: string): string[] {
  const path = entry === '.' ? 'src/index.ts' : `src/${entry}/index.ts`;
  const { statements } = ts.createSourceFile(path, read(path), ts.ScriptTarget.Latest);
  return statements.flatMap((statement) => {
    if (!ts.isExportDeclaration(statement) || !statement.exportClause) return [];
    return ts.isNamedExports(statement.exportClause)
      ? statement.exportClause.elements.map(({ name }) => name.text)
      : [statement.exportClause.name.text];
  });
}

/** Says where a name is from: a part of this package, or the technology that an implementation stands on. */
const TELLING = /Mcp|^MCP_|^mcp|^(?:Redis|redis|InMemory|Otel|Prometheus)/;

/** The other names, by the reason why they have none in front. */
const PLAIN: Readonly<Record<string, readonly string[]>> = {
  'decorators, with their options and what their methods emit': [
    'AppView',
    'AppViewOptions',
    'Complete',
    'Confirm',
    'CompleteOptions',
    'ListResources',
    'Prompt',
    'PromptOptions',
    'RequireScopes',
    'RequireScopesOptions',
    'Resource',
    'ResourceOptions',
    'ResourceTemplate',
    'ResourceTemplateOptions',
    'Skill',
    'SkillOptions',
    'readSkillFolder',
    'Tool',
    'ToolEvent',
    'ToolLog',
    'toolLog',
    'ToolOptions',
    'ToolProgress',
    'toolProgress',
    'Tools',
    'ToolsOptions',
  ],
  'parts of content': ['audio', 'file', 'image', 'resourceLink', 'text'],
  'what a value is': ['passed', 'structured', 'toolResult'],
  'parts of lists': ['partOf'],
  'names of the SDK': ['AuthInfo', 'OAuthTokenVerifier', 'Server'],
  'named after a class of the SDK': ['StreamableClientTransport', 'StreamableClientTransportOptions'],
  'said in full': ['LEGACY_REVISIONS', 'MODERN_REVISIONS', 'traceContextMeta'],
  'time of stores and tests': ['ManualClock', 'systemClock'],
  'functions of the testing kit': [
    'createAppFetch',
    'diagnose',
    'eventStoreContract',
    'expectContract',
    'expectHealthy',
    'expectNothingLeft',
    'messageBusContract',
    'mintTestToken',
    'refusalOf',
    'sessionStoreContract',
    'stateStoreContract',
    'taskStoreContract',
    'toolRouting',
  ],
};

describe('the entries of the package', () => {
  it('the entries of the package are the same in package.json, in the types for older resolution, and in the reference of the docs', () => {
    const { exports, typesVersions } = JSON.parse(read('package.json')) as {
      exports: Record<string, unknown>;
      typesVersions: { '*': Record<string, unknown> };
    };
    const { entryPoints } = JSON.parse(read('docs/typedoc.json')) as { entryPoints: string[] };
    expect(Object.keys(exports)).toEqual(['.', ...folders.map((name) => `./${name}`), './package.json']);
    expect(Object.keys(typesVersions['*'])).toEqual(folders);
    expect(entryPoints).toEqual(['../src/index.ts', ...folders.map((name) => `../src/${name}/index.ts`)]);
  });

  it('the entries of the package have at most 125 names in the main one, which is for authors of apps', () => {
    expect(namesOf('.').length).toBeGreaterThan(50);
    expect(namesOf('.').length).toBeLessThanOrEqual(125);
  });

  it('export no name that could be from any package', () => {
    const plain = Object.values(PLAIN).flat();
    const names = ['.', ...folders].flatMap(namesOf);
    expect(names.filter((name) => !TELLING.test(name) && !plain.includes(name))).toEqual([]);
    expect(plain.filter((name) => !names.includes(name))).toEqual([]);
  });

  it('the entries of the package have one thing under a name, whichever of them exports it', async () => {
    const main = (await import('nestjs-mcp-streamable')) as Record<string, unknown>;
    for (const folder of ['stores', 'client', 'tasks', 'skills', 'server', 'live', 'plugins']) {
      const entry = (await import(`../../src/${folder}/index.ts`)) as Record<string, unknown>;
      const others = Object.keys(entry).filter((name) => name in main && main[name] !== entry[name]);
      expect({ folder, others }).toEqual({ folder, others: [] });
    }
  });
});
