// `npm run x -- check:features [NAME …]`: whether each feature can be taken out. In a copy of the sources it removes the folder of one, what
// the composition of the package (the files of `src` itself, and the entries) imports from it, and its entry of package.json; the rest must
// compile. Then the next one.
import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { root } from './build.mjs';

const TSC = join(root, 'node_modules/@typescript/native/bin/tsc');
const COPY = join(root, 'build/features');
const SRC = join(COPY, 'src');
/** Not features: the core, and the entries that gather names of all. */
const KEPT = ['core', 'decorators', 'plugins', 'stores'];
/** Features that are made of others, which goes for good reasons: without those they go too. */
const STANDS_ON = {
  // The kit is a client for tests, and examines as the doctor does.
  testing: ['client', 'doctor'],
  // A session of a server of the SDK.
  standalone: ['server'],
};
/** More errors of a feature are only counted. */
const MOST_ERRORS = 6;

/** Copies sources that are compiled for the package. @param folder below `src`; all of them without it */
function copy(folder = '') {
  const filter = (path) => !path.endsWith('.spec.ts') && path !== join(root, 'src/live/page');
  cpSync(join(root, 'src', folder), join(SRC, folder), { recursive: true, filter });
}

function prepare() {
  rmSync(SRC, { recursive: true, force: true });
  mkdirSync(SRC, { recursive: true });
  copy();
  const compilerOptions = {
    noEmit: true,
    composite: false,
    incremental: true,
    tsBuildInfoFile: './.tsbuildinfo',
    rootDir: 'src',
    // What only a feature has used may stay.
    noUnusedLocals: false,
    noUnusedParameters: false,
  };
  const config = { extends: '../../src/tsconfig.build.json', compilerOptions, include: ['src'] };
  writeFileSync(join(COPY, 'tsconfig.json'), JSON.stringify(config));
}

/** Returns the errors, by file. */
function compile() {
  const { status, stdout } = spawnSync(process.execPath, [TSC, '--project', COPY, '--pretty', 'false'], {
    encoding: 'utf8',
  });
  if (status === 0) return [];
  return stdout.split('\n').filter((line) => /^\S.*error TS/.test(line));
}

/** The files that compose the package, below `src`. */
const composition = () => [
  ...readdirSync(SRC).filter((name) => name.endsWith('.ts')),
  ...readdirSync(SRC)
    .map((name) => `${name}/index.ts`)
    .filter((path) => existsSync(join(SRC, path))),
];

const isList = (node) =>
  ts.isObjectLiteralExpression(node) ||
  ts.isInterfaceDeclaration(node) ||
  ts.isTypeLiteralNode(node) ||
  ts.isHeritageClause(node) ||
  ts.isUnionTypeNode(node) ||
  ts.isIntersectionTypeNode(node) ||
  ts.isNamedExports(node) ||
  ts.isBlock(node) ||
  ts.isSourceFile(node);

/** Returns what goes with a use: the row of the outermost list in which it stands, else its member, or its statement. */
function elementOf(use) {
  let row;
  let member;
  for (let node = use; node.parent; node = node.parent) {
    if (ts.isArrayLiteralExpression(node.parent)) row = node;
    if (isList(node.parent)) member ??= node;
  }
  return row ?? member;
}

/** Returns the names that a statement of a file declares. */
function namesOf(statement) {
  if (ts.isVariableStatement(statement)) {
    return statement.declarationList.declarations.flatMap(({ name }) => (ts.isIdentifier(name) ? [name.text] : []));
  }
  return statement.name && ts.isSourceFile(statement.parent) ? [statement.name.text] : [];
}

/** Whether an identifier uses a name of its file: it is no member of something else, and declares nothing. */
function isUse(node) {
  const { parent } = node;
  if (ts.isShorthandPropertyAssignment(parent)) return true;
  if (ts.isPropertyAccessExpression(parent) || ts.isQualifiedName(parent)) return parent.name !== node;
  if (ts.isExportSpecifier(parent))
    return !parent.parent.parent.moduleSpecifier && (parent.propertyName ?? parent.name) === node;
  return parent.name !== node && parent.propertyName !== node;
}

/** Returns a file of the composition without a feature; `undefined`: it names nothing of it. */
function without(feature, path, text) {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  const isOfFeature = ({ text: specifier }) =>
    specifier.startsWith('.') && posix.join(posix.dirname(path), specifier).startsWith(`${feature}/`);
  const dropped = new Set();
  const names = new Set();
  const drop = (node) => {
    dropped.add(node);
    for (const name of namesOf(node)) names.add(name);
  };
  const visit = (node) => {
    if (dropped.has(node)) return;
    if (ts.isImportDeclaration(node) && isOfFeature(node.moduleSpecifier)) {
      dropped.add(node);
      const { name, namedBindings } = node.importClause ?? {};
      if (name) names.add(name.text);
      if (namedBindings?.name) names.add(namedBindings.name.text);
      for (const element of namedBindings?.elements ?? []) names.add(element.name.text);
    } else if (ts.isExportDeclaration(node) && node.moduleSpecifier && isOfFeature(node.moduleSpecifier)) {
      dropped.add(node);
    } else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      if (isOfFeature(node.arguments[0])) drop(elementOf(node));
    } else if (ts.isImportTypeNode(node) && isOfFeature(node.argument.literal)) {
      drop(elementOf(node));
    } else if (ts.isIdentifier(node) && names.has(node.text) && isUse(node)) {
      drop(elementOf(node));
    }
    if (!dropped.has(node)) ts.forEachChild(node, visit);
  };
  for (let before = -1; before < dropped.size;) {
    before = dropped.size;
    visit(file);
  }
  if (dropped.size === 0) return undefined;
  const { transformed } = ts.transform(file, [
    (context) => {
      const keep = (node) => {
        if (dropped.has(node)) return undefined;
        const kept = ts.visitEachChild(node, keep, context);
        return ts.isHeritageClause(kept) && kept.types.length === 0 ? undefined : kept;
      };
      return keep;
    },
  ]);
  return ts.createPrinter().printFile(transformed[0]);
}

/** Returns the entries of package.json that lead nowhere without features. */
function entriesThatLeadNowhere(features) {
  const { exports } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
  for (const feature of features) delete exports[`./${feature}`];
  return Object.values(exports)
    .flatMap(({ types }) => (types ? [types.replace('./dist/', '').replace('.d.ts', '.ts')] : []))
    .filter((path) => !existsSync(join(SRC, path)))
    .map((path) => `package.json: ${path} is exported, but gone`);
}

/** Takes features out of the copy, compiles the rest, and puts them back. */
function check(features) {
  for (const feature of features) rmSync(join(SRC, feature), { recursive: true });
  for (const path of composition()) {
    const text = readFileSync(join(SRC, path), 'utf8');
    const rest = features.reduce((left, feature) => without(feature, path, left) ?? left, text);
    if (rest !== text) writeFileSync(join(SRC, path), rest);
  }
  const errors = [...compile(), ...entriesThatLeadNowhere(features)];
  copy();
  return errors;
}

function main(asked) {
  const features = readdirSync(join(root, 'src'), { withFileTypes: true })
    .filter((each) => each.isDirectory() && !KEPT.includes(each.name))
    .map(({ name }) => name);
  const unknown = asked.filter((name) => !features.includes(name));
  if (unknown.length > 0) throw new Error(`There is no feature ${unknown.join(', ')}: ${features.join(', ')}`);
  prepare();
  const before = compile();
  if (before.length > 0) throw new Error(`The sources do not compile:\n${before.join('\n')}`);
  for (const feature of asked.length > 0 ? asked : features) {
    const others = Object.keys(STANDS_ON).filter((each) => STANDS_ON[each].includes(feature));
    const errors = check([feature, ...others]);
    console.log(`  ${errors.length === 0 ? 'ok ' : 'NOT'} without ${[feature, ...others].join(', and without ')}`);
    if (errors.length === 0) continue;
    process.exitCode = 1;
    for (const error of errors.slice(0, MOST_ERRORS)) console.log(`        ${error.replace('build/features/', '')}`);
    if (errors.length > MOST_ERRORS) console.log(`        … ${errors.length - MOST_ERRORS} more`);
  }
}

export { without };

if (process.argv[1] === fileURLToPath(import.meta.url)) main(process.argv.slice(2));
