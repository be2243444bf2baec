// Plants mutants in the folders that carry sessions, streams and calls, and notes which of them the tests kill.
//
//   node scripts/mutants.mjs             goes on where the last run ended, and writes test/mutants.json
//   node scripts/mutants.mjs --check     plants those again that were killed, and fails if one survives
//
// It changes files below src/ while it runs and puts them back: use a clone. Seeds and counts are in the file of results.
// The record is of commit 3d367a5, before tests went: copy this script and the file into a clone of that commit to go on.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';

const FOLDERS = ['src/core/log', 'src/core/calls', 'src/core/sessions', 'src/core/nodes'];
const RESULTS = 'test/mutants.json';
const COUNT = 150;
const SEED = 18;
/** Most mutants die in the first. Milliseconds are limits, as a mutant may hang. */
const STAGES = [
  { name: 'unit', project: 'unit', filters: FOLDERS, limitMs: 60_000 },
  { name: 'e2e', project: 'e2e', filters: ['test/legacy', 'test/modern', 'test/cluster'], limitMs: 240_000 },
];

/** Numbers between 0 and 1 that are the same in each run (mulberry32). */
function randomOf(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const SWAPS = new Map([
  [ts.SyntaxKind.LessThanToken, '<='],
  [ts.SyntaxKind.LessThanEqualsToken, '<'],
  [ts.SyntaxKind.GreaterThanToken, '>='],
  [ts.SyntaxKind.GreaterThanEqualsToken, '>'],
  [ts.SyntaxKind.EqualsEqualsEqualsToken, '!=='],
  [ts.SyntaxKind.ExclamationEqualsEqualsToken, '==='],
  [ts.SyntaxKind.AmpersandAmpersandToken, '||'],
  [ts.SyntaxKind.BarBarToken, '&&'],
  [ts.SyntaxKind.PlusToken, '-'],
  [ts.SyntaxKind.MinusToken, '+'],
]);

/** All mutants of a file: where a text is replaced by another. */
function mutantsOf(file) {
  const text = readFileSync(file, 'utf8');
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found = [];
  const add = (node, replacement, kind) => {
    const [start, end] = [node.getStart(source), node.getEnd()];
    found.push({ start, end, replacement, kind });
  };
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node)) return;
    if (ts.isBinaryExpression(node) && SWAPS.has(node.operatorToken.kind)) {
      const concatenates = [node.left, node.right].some(
        (side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side),
      );
      if (!concatenates) add(node.operatorToken, SWAPS.get(node.operatorToken.kind), 'operator');
    }
    if ((ts.isIfStatement(node) || ts.isWhileStatement(node)) && !ts.isBinaryExpression(node.expression)) {
      add(node.expression, `!(${node.expression.getText(source)})`, 'condition');
    }
    if (ts.isConditionalExpression(node)) {
      add(node.condition, `!(${node.condition.getText(source)})`, 'condition');
    }
    if (node.kind === ts.SyntaxKind.TrueKeyword) add(node, 'false', 'literal');
    if (node.kind === ts.SyntaxKind.FalseKeyword) add(node, 'true', 'literal');
    if (ts.isNumericLiteral(node)) add(node, `(${node.text} + 1)`, 'literal');
    if (ts.isExpressionStatement(node)) add(node, ';', 'statement');
    if (ts.isReturnStatement(node) && node.expression && ts.isBlock(node.parent) && node.parent.statements.length > 1) {
      if (node.parent.statements.at(-1) !== node) add(node, ';', 'statement');
    }
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found.map((mutant) => ({ file, ...described(text, mutant) }));
}

/** By the line and its text, so that a mutant is found again when other lines move. */
function described(text, { start, end, replacement, kind }) {
  const begin = text.lastIndexOf('\n', start - 1) + 1;
  const stop = text.indexOf('\n', end);
  const lines = text.slice(begin, stop < 0 ? text.length : stop);
  const mutated = text.slice(begin, start) + replacement + text.slice(end, stop < 0 ? text.length : stop);
  const nth = text.slice(0, begin).split(lines).length - 1;
  return { kind, line: text.slice(0, begin).split('\n').length, lines, mutated, nth };
}

/** The files that mutants are planted in. */
function sources() {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(folder, { encoding: 'utf8', recursive: true }).map((name) => `${folder}/${name}`),
  );
  return files.filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'));
}

function chosen() {
  const all = sources()
    .toSorted((one, other) => (one < other ? -1 : 1))
    .flatMap(mutantsOf);
  const random = randomOf(SEED);
  return all
    .map((mutant) => ({ mutant, order: random() }))
    .toSorted((one, other) => one.order - other.order)
    .slice(0, COUNT)
    .map(({ mutant }) => mutant);
}

/** @returns the mutant in the file that has its lines today, where code may have been moved to; nothing if they are gone */
function located(mutant) {
  const has = (file) => existsSync(file) && readFileSync(file, 'utf8').split(mutant.lines).length > mutant.nth + 1;
  const name = basename(mutant.file);
  const moved = sources().toSorted((one, other) => (basename(other) === name) - (basename(one) === name));
  const file = [mutant.file, ...moved].find(has);
  return file && { ...mutant, file };
}

/** @returns the file with the mutant */
function planted({ file, lines, mutated, nth }) {
  const parts = readFileSync(file, 'utf8').split(lines);
  return parts.slice(0, nth + 1).join(lines) + mutated + parts.slice(nth + 1).join(lines);
}

/** A process that runs stages again and again, and is replaced when a mutant makes it hang. */
let runner;

async function passes({ name, limitMs }, file) {
  runner ??= fork(fileURLToPath(import.meta.url), ['--runner'], { detached: true, stdio: 'ignore' });
  runner.send({ name, file });
  const over = new AbortController();
  const { signal } = over;
  const said = await Promise.race([
    once(runner, 'message', { signal }),
    once(runner, 'exit', { signal }),
    delay(limitMs, undefined, { signal }),
  ]);
  over.abort();
  if (said?.[0]?.passed !== undefined) return said[0].passed;
  try {
    process.kill(-runner.pid, 'SIGKILL');
  } catch {
    // It has ended.
  }
  runner = undefined;
  return false;
}

/** In the process above: the tests of a stage, until one fails. */
async function run() {
  const { createVitest } = await import('vitest/node');
  const vitest = await createVitest('test', { watch: false, bail: 1, reporters: [{}], testTimeout: 10_000 });
  const runs = new Map();
  for (const { name, project, filters } of STAGES) {
    const found = await vitest.globTestSpecifications(filters);
    runs.set(
      name,
      found.filter((specification) => specification.project.name === project),
    );
  }
  const tell = async ({ name, file }) => {
    vitest.invalidateFile(resolve(file));
    vitest.state.filesMap.clear();
    const { testModules, unhandledErrors } = await vitest.runTestSpecifications(runs.get(name));
    const passed = testModules.every((module) => module.ok()) && unhandledErrors.length === 0;
    process.send({ passed });
  };
  process.on('message', (asked) => void tell(asked));
}

/** @returns the stage that killed it, or `survived`, or `gone` */
async function fateOf(recorded) {
  const mutant = located(recorded);
  if (!mutant) return 'gone';
  const text = planted(mutant);
  const original = readFileSync(mutant.file, 'utf8');
  process.once('exit', () => writeFileSync(mutant.file, original));
  try {
    for (const stage of STAGES) {
      writeFileSync(mutant.file, text);
      if (await passes(stage, mutant.file)) continue;
      writeFileSync(mutant.file, original);
      // A test that fails without a mutant proves nothing.
      if (await passes(stage, mutant.file)) return stage.name;
      console.log(`Flaky: ${stage.name}, at ${mutant.file}:${mutant.line}`);
    }
    return 'survived';
  } finally {
    writeFileSync(mutant.file, original);
    process.removeAllListeners('exit');
  }
}

const write = (mutants) =>
  writeFileSync(RESULTS, `${JSON.stringify({ seed: SEED, folders: FOLDERS, mutants }, undefined, 2)}\n`);

async function record() {
  const mutants = existsSync(RESULTS) ? JSON.parse(readFileSync(RESULTS, 'utf8')).mutants : chosen();
  for (const [index, mutant] of mutants.entries()) {
    if (mutant.fate) continue;
    mutant.fate = await fateOf(mutant);
    write(mutants);
    console.log(
      `${index + 1}/${mutants.length} ${mutant.fate}: ${mutant.file}:${mutant.line} ${mutant.mutated.trim()}`,
    );
  }
  const killed = mutants.filter(({ fate }) => fate !== 'survived').length;
  console.log(`${killed} of ${mutants.length} were killed.`);
}

async function check() {
  const { mutants } = JSON.parse(readFileSync(RESULTS, 'utf8'));
  const killed = mutants.filter(({ fate }) => fate !== 'survived');
  const fates = [];
  for (const mutant of killed) {
    const fate = await fateOf(mutant);
    fates.push(fate);
    console.log(`${fates.length}/${killed.length} ${fate}`);
    if (fate === 'survived') console.log(`survived: ${mutant.file}:${mutant.line} ${mutant.mutated.trim()}`);
  }
  const count = (wanted) => fates.filter((fate) => fate === wanted).length;
  console.log(
    `${killed.length} were killed before: ${count('survived')} survive now, of ${count('gone')} the code is gone.`,
  );
  if (count('survived') > 0) process.exitCode = 1;
}

if (process.argv.includes('--runner')) {
  await run();
} else {
  await (process.argv.includes('--check') ? check() : record());
  if (runner) process.kill(-runner.pid, 'SIGKILL');
}
