import { execFile } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

/*
 * The code within the texts of pages, such as `image(bytes)`, as files for the compiler: one for each piece that names something of the
 * package. What the package exports is global there, and what nothing declares is `any`.
 */

const root = new URL('../../', import.meta.url);
const TO = 'build/inline-code';
const folder = new URL(`${TO}/`, root);
const read = (path: string): string => readFileSync(new URL(path, root), 'utf8');

const ENTRIES = readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
  .map((name) => name.replaceAll('\\', '/'))
  .filter((name) => /^(?:[a-z]+\/)?index\.ts$/.test(name))
  .toSorted((one, other) => one.length - other.length);
/** What pages call an object of the package, of Nest, or of the reader. */
const OBJECTS: Record<string, string> = {
  ctx: `import('nestjs-mcp-streamable').McpContext<any>`,
  registry: `import('nestjs-mcp-streamable').McpRegistry`,
  mcp: `import('nestjs-mcp-streamable/testing').McpTestClient`,
  app: `import('@nestjs/common').INestApplication`,
  AppModule: 'new () => object',
  bytes: 'Uint8Array',
};
/** Options of Nest and of bundlers. */
const OF_OTHERS = ['asyncChunks', 'forceCloseConnections', 'packages'];
const CANNOT_FIND_NAME = /TS(?:2304|2552|18004)/;
const CANNOT_SPREAD = /TS2556/;
const UNKNOWN_MEMBER = /TS(?:2353|2561)/;
const LACKS = /TS(?:2345|2322|2741|2739|2769)/;

let text: string | undefined;
function sources(): string {
  text ??= readdirSync(new URL('src', root), { recursive: true, encoding: 'utf8' })
    .filter((name) => /(?<!\.spec)\.ts$/.test(name))
    .map((name) => read(`src/${name}`))
    .join('\n');
  return text;
}

export interface InlineCode {
  readonly page: string;
  readonly line: number;
  readonly code: string;
}

/** Returns the code within the texts of a page. */
export function inlineCodeOf(page: string): InlineCode[] {
  const blank = (part: string): string => part.replaceAll(/[^\n]/g, '');
  const blocks = read(page).replaceAll(/^( *)```[^]*?^\1```/gm, blank);
  // The first column of a page about a move has what was there before.
  const text = page.includes('migrating') ? blocks.replaceAll(/^\|(?:[^|\n\\]|\\\|)*\|/gm, blank) : blocks;
  return [...text.matchAll(/(?<!`)`([^`]+)`(?!`)/g)].map(({ 1: code, index }) => ({
    page,
    line: text.slice(0, index).split('\n').length,
    code: code!.replaceAll(/\s+/g, ' ').replaceAll('\\|', '|'),
  }));
}

/** The names of the values that the package exports, with their entries. */
const VALUES = new Map<string, string>();
/** The types of options that the package exports. */
const OPTIONS = new Map<string, string>();
const EXPORTED = new Set<string>();
for (const entry of ENTRIES) {
  const module = `nestjs-mcp-streamable/${entry}`.replace(/\/?index\.ts$/, '');
  for (const [, isType, names] of read(`src/${entry}`).matchAll(/^export (type )?\{([^}]*)\}/gm)) {
    for (const [, ofType, name] of names!.matchAll(/(type )?(?:\w+ as )?(\w+)\s*(?:,|$)/g)) {
      EXPORTED.add(name!);
      if ((isType ?? ofType) === undefined) VALUES.set(name!, VALUES.get(name!) ?? module);
      else if (/Options$|(?<!^Mcp)Registration$|Extras$|CatalogueTool$/.test(name!)) OPTIONS.set(name!, module);
    }
  }
}
const names = [...VALUES.keys()].join('|');
/** Calls with arguments, decorators and constructors of the package, members of its classes, and of its objects. */
const OF_PACKAGE = new RegExp(
  [
    `(?<![\\w.$'"-])(?:${names})(?:\\.\\w+)*\\([^)]`,
    `@(?:${names})\\(`,
    `(?<![\\w.$'"/-])(?:${names})\\.(?!ts\\b|js\\b)\\w`,
    String.raw`(?<![\w.$/])(?:ctx|registry)\??\.\w|(?<![\w.$/])mcp\.\w+\(`,
  ].join('|'),
);
const OPTION = /^([a-z]\w*): (?:['"[{]|\d[\d_.]*$|true|false|undefined|Infinity|\w+\().*/;

const GLOBALS = `export {};
type Instance<C> = C extends { prototype: infer I } ? (0 extends 1 & I ? unknown : I) : unknown;
type Options = ${[...OPTIONS].map(([name, module]) => `import('${module}').${name}`).join(' | ')};
type Names<T> = T extends unknown ? keyof T : never;
type Values<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never;
declare global {
  const $any: any;
  const $option: (option: { [K in Names<Options>]?: Values<Options, K> }) => void;
${Object.entries(OBJECTS)
  .map(([name, type]) => `  const ${name}: ${type};`)
  .join('\n')}
${[...VALUES]
  // Pages write a method of an instance as \`McpSessionService.notify()\`.
  .map(([name, module]) => [name, `typeof import('${module}').${name}`] as const)
  .map(([name, type]) => `  const ${name}: ${type}${/^[A-Z]/.test(name) ? ` & Instance<${type}>` : ''};`)
  .join('\n')}
}
`;

/** Returns a piece of code as a statement; `undefined` if it is none of the package. */
function statementOf(code: string): string | undefined {
  // A decorator is a call, too. What follows it is what it decorates.
  const decorator = /^@(\w+\(.*)/.exec(code)?.[1];
  const called = decorator === undefined ? code : decorator.slice(0, endOfCall(decorator));
  const whole = withoutEllipses(called.replaceAll(/(?<=\w)\(\)$/g, ''));
  if (OF_PACKAGE.test(code)) {
    const value = whole.replace(/^[a-z]\w*: /, '').replace(/^(?:return|yield) /, '');
    return /^(?:const|await using|if|throw) /.test(value) ? value : `[${value}]`;
  }
  return OPTION.test(code) ? `$option({ ${whole} })` : undefined;
}

function endOfCall(code: string): number {
  let depth = 0;
  for (const [at, char] of code.split('').entries()) {
    if (char === '(') depth++;
    if (char === ')' && --depth === 0) return at + 1;
  }
  return code.length;
}

/** Replaces what a page leaves out: in a call or a list by more values, in an object by nothing. */
function withoutEllipses(code: string): string {
  const open: string[] = [];
  let quote = '';
  let written = '';
  for (const char of code.replaceAll(/\.\.\.(?![\w$([{'"`])/g, '…')) {
    if (quote !== '') quote = char === quote ? '' : quote;
    else if (`'"\``.includes(char)) quote = char;
    else if ('([{'.includes(char)) open.push(char);
    else if (')]}'.includes(char)) open.pop();
    const inside = /=>\s*$/.test(written) ? '=>' : open.at(-1);
    if (char !== '…' || quote !== '') written += char;
    else if (inside === '(' || inside === '[') written += '...$any';
    else if (inside !== '{') written += '$any';
  }
  return written.replaceAll(/(?<=[{,]\s*),/g, '');
}

/** Names that look like those of the package: contexts of its log, classes of `@rekog/mcp-nest`, and a module of the reader. */
const NOT_EXPORTED =
  /^Mcp(?:Streamable|Audit|Module|Strategy|AuthModule|HttpControllerFor|RawRequest|RegistryService)$/;

/** @returns the names within a text that the package does not export, though they look like it */
export function unknownNamesOf({ page, line, code }: InlineCode): string[] {
  return [...code.matchAll(/(?<![\w$/.'"-])((?:Mcp|Otel|Redis|InMemory)[A-Z]\w*)/g)]
    .filter(([, name]) => !EXPORTED.has(name!) && !NOT_EXPORTED.test(name!))
    .map(([, name]) => `${page}:${line} ${name}`);
}

/** Compiles the code within the texts of pages. @returns how many pieces were compiled, and what is wrong with which */
export async function compileInlineCode(pieces: readonly InlineCode[]): Promise<{ files: number; faults: string[] }> {
  const files = [...new Map(pieces.map((piece) => [piece.code, piece])).values()]
    .map((piece) => ({ ...piece, statement: statementOf(piece.code) }))
    .filter(({ statement }) => statement !== undefined);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(new URL('globals.ts', folder), GLOBALS);
  for (const [at, { statement }] of files.entries())
    writeFileSync(new URL(`${at}.ts`, folder), `export const piece = async () => {\n${statement};\n};\n`);
  // The declarations of the package alone, since the type check of the repository checks its sources.
  const declarations = ['--emitDeclarationOnly', '--noCheck', '--noEmitOnError', 'false', '--outDir', `${TO}/package`];
  const alone = ['--composite', 'false', '--incremental', 'false', '--tsBuildInfoFile', 'null'];
  const failed = await outputOf('-p', 'src/tsconfig.build.json', ...declarations, ...alone);
  const compilerOptions = {
    noUnusedLocals: false,
    noUnusedParameters: false,
    noImplicitAny: false,
    paths: {
      'nestjs-mcp-streamable': ['./package/index.d.ts'],
      'nestjs-mcp-streamable/*': ['./package/*/index.d.ts'],
    },
  };
  const config = { extends: '../../tsconfig.json', compilerOptions, include: ['*.ts'], exclude: [] };
  writeFileSync(new URL('tsconfig.json', folder), JSON.stringify(config));
  const output = failed + (await outputOf('-p', TO));
  const faults = [...output.matchAll(/^(?:.*\/)?(\d+)\.ts\(\d+,\d+\): error (TS\d+): ([^]*?)(?=^\S|$(?![^]))/gm)]
    .map(([, at, code, text]) => ({ ...files[Number(at)]!, error: code!, text: text!.trim() }))
    .filter(({ error, text, code, statement }) => {
      const lacks = LACKS.test(error) && /is missing|missing the following/.test(text) && /…|\.\.\./.test(code);
      const name = statement!.startsWith('$option') ? OPTION.exec(code)![1]! : undefined;
      // A member of an option, or a field of a message, is not an option. Its name is in the sources.
      const isKnown = UNKNOWN_MEMBER.test(error) && new RegExp(`\\b${name}\\b`).test(sources());
      return (
        !CANNOT_FIND_NAME.test(error) && !CANNOT_SPREAD.test(error) && !lacks && !isKnown && !OF_OTHERS.includes(name!)
      );
    })
    .map(({ page, line, code, error, text }) => `${page}:${line} \`${code}\` ${error} ${text}`);
  const others = output.split('\n').filter((line) => /error TS/.test(line) && !/(?:^|\/)\d+\.ts\(/.test(line));
  return { files: files.length, faults: [...faults, ...others] };
}

/** Runs the compiler. It ends with 2 when it finds faults. @returns what it says */
function outputOf(...args: string[]): Promise<string> {
  const tsc = fileURLToPath(new URL('node_modules/@typescript/native/bin/tsc', root));
  const options = { cwd: root, maxBuffer: 1e8 };
  return new Promise((resolve) => {
    execFile(process.execPath, [tsc, ...args, '--pretty', 'false'], options, (_, stdout) => resolve(stdout));
  });
}

/** The pages for users of the package. The pages about its code, and about others, name what is not exported. */
export const PAGES = [
  'README.md',
  ...readdirSync(new URL('docs', root), { recursive: true, encoding: 'utf8' })
    .map((name) => `docs/${name.replaceAll('\\', '/')}`)
    .filter(
      (name) => name.endsWith('.md') && !/^docs\/(?:api|decisions|architecture|comparison|path-of-a-call)/.test(name),
    ),
  ...readdirSync(new URL('examples', root))
    .map((name) => `examples/${name}/README.md`)
    .filter((name) => existsSync(new URL(name, root))),
];
