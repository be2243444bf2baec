import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { describe, expect, it } from 'vitest';

const root = fileURLToPath(new URL('../../', import.meta.url));

/** Resolves files of the package alone: what other packages have is not needed to read its comments, and takes seconds. */
function entriesOfPackage(): { checker: ts.TypeChecker; entries: ts.SourceFile[] } {
  const names = ['src/index.ts', ...readdirSync(`${root}src`).map((folder) => `src/${folder}/index.ts`)]
    .map((name) => root + name)
    .filter((path) => existsSync(path));
  const options: ts.CompilerOptions = { noLib: true, types: [], target: ts.ScriptTarget.ES2023 };
  const host = ts.createCompilerHost(options);
  host.resolveModuleNameLiterals = (literals, from) =>
    literals.map(({ text }) => {
      const path = resolve(dirname(from), text.replace(/\.js$/, '.ts'));
      const isOurs = text.startsWith('.') && existsSync(path);
      return { resolvedModule: isOurs ? { resolvedFileName: path, extension: ts.Extension.Ts } : undefined };
    });
  const program = ts.createProgram(names, options, host);
  return { checker: program.getTypeChecker(), entries: names.map((name) => program.getSourceFile(name)!) };
}

interface Hover {
  readonly name: string;
  readonly text: string;
  readonly tags: readonly { readonly name: string; readonly text: string }[];
}

/** What an editor shows at each name that an entry exports, and at each member of it. */
function hovers(): Hover[] {
  const { checker, entries } = entriesOfPackage();
  const hoverOf = (symbol: ts.Symbol, name: string): Hover => ({
    name,
    text: ts.displayPartsToString(symbol.getDocumentationComment(checker)),
    tags: symbol.getJsDocTags(checker).map((tag) => ({ name: tag.name, text: ts.displayPartsToString(tag.text) })),
  });
  const isOurs = ({ declarations = [] }: ts.Symbol): boolean => declarations.length > 0;
  return entries.flatMap((entry) =>
    checker.getExportsOfModule(checker.getSymbolAtLocation(entry)!).flatMap((exported) => {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported;
      const members = [...(symbol.members?.values() ?? []), ...(symbol.exports?.values() ?? [])].filter(isOurs);
      return [
        hoverOf(symbol, symbol.name),
        ...members.map((member) => hoverOf(member, `${symbol.name}.${member.name}`)),
      ];
    }),
  );
}

describe('the hovers of public names', () => {
  const all = hovers();
  const { blockTags, modifierTags } = JSON.parse(readFileSync(`${root}docs/typedoc.json`, 'utf8')) as {
    blockTags: string[];
    modifierTags: string[];
  };

  it('the hovers of public names are those of all entries, with their texts and tags', () => {
    const tool = all.find(({ name }) => name === 'Tool')!;
    expect(tool.text).toMatch(/^Makes a method of a provider or controller a tool/);
    expect(tool.tags.map(({ name }) => name)).toEqual(['see', 'publicApi']);
    expect(new Set(all.map(({ name }) => name)).size).toBeGreaterThan(1000);
  });

  it('the hovers of public names have no tag that is none: a decorator after a space ends the text for editors', () => {
    const known = [...blockTags, ...modifierTags];
    const wrong = all.flatMap(({ name, tags }) =>
      tags.filter((tag) => !known.includes(`@${tag.name}`)).map((tag) => `${name}: @${tag.name}`),
    );
    expect(wrong).toEqual([]);
  });

  it('the hovers of public names lead to URLs, which editors and the reference of the site can follow', () => {
    const relative = all.filter(({ text, tags }) =>
      [text, ...tags.map((tag) => tag.text)].some((part) => /\]\((?!https:)/.test(part)),
    );
    expect(relative.map(({ name }) => name)).toEqual([]);
  });

  it('the hovers of public names show their examples whole', () => {
    const cut = all.filter(({ text, tags }) =>
      [text, ...tags.map((tag) => tag.text)].some((part) => part.split('`').length % 2 === 0),
    );
    expect(cut.map(({ name }) => name)).toEqual([]);
  });
});
