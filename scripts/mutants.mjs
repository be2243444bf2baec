// Plants mutants in the folders that carry sessions, streams and calls, and notes which of them the tests kill.
//
//   node scripts/mutants.mjs             goes on where the last run ended, and writes test/mutants.json
//   node scripts/mutants.mjs --check     plants those again that were killed, and fails if one survives
//
// It changes files below src/ while it runs and puts them back: use a clone. Seeds and counts are in the file of results.
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import ts from 'typescript';

const FOLDERS = ['src/stream', 'src/exchange', 'src/session'];
const RESULTS = 'test/mutants.json';
const COUNT = 150;
const SEED = 18;
/** From few seconds to all tests: most mutants die early. Milliseconds are limits, as a mutant may hang. */
const STAGES = [
  { name: 'unit', args: ['--project', 'unit', ...FOLDERS], limitMs: 120_000 },
  { name: 'e2e', args: ['--project', 'e2e', 'test/legacy', 'test/modern', 'test/cluster'], limitMs: 400_000 },
  { name: 'all', args: [], limitMs: 1_200_000 },
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

function chosen() {
  const files = FOLDERS.flatMap((folder) =>
    readdirSync(folder, { recursive: true }).map((name) => `${folder}/${name}`),
  );
  const sources = files.filter((file) => file.endsWith('.ts') && !file.endsWith('.spec.ts'));
  const all = sources.toSorted((one, other) => (one < other ? -1 : 1)).flatMap(mutantsOf);
  const random = randomOf(SEED);
  return all
    .map((mutant) => ({ mutant, order: random() }))
    .toSorted((one, other) => one.order - other.order)
    .slice(0, COUNT)
    .map(({ mutant }) => mutant);
}

/** @returns the file with the mutant; nothing if its lines are gone */
function planted({ file, lines, mutated, nth }) {
  if (!existsSync(file)) return undefined;
  const parts = readFileSync(file, 'utf8').split(lines);
  if (parts.length < nth + 2) return undefined;
  return parts.slice(0, nth + 1).join(lines) + mutated + parts.slice(nth + 1).join(lines);
}

function passes({ args, limitMs }) {
  return new Promise((resolve) => {
    const all = ['node_modules/vitest/vitest.mjs', 'run', '--bail', '1', '--reporter', 'dot', ...args];
    const run = spawn(process.execPath, all, { stdio: 'ignore', detached: true });
    const end = (passed) => {
      clearTimeout(timer);
      try {
        process.kill(-run.pid, 'SIGKILL');
      } catch {
        // It has ended.
      }
      resolve(passed);
    };
    const timer = setTimeout(() => end(false), limitMs);
    run.on('exit', (code) => end(code === 0));
  });
}

/** @returns the stage that killed it, or `survived`, or `gone` */
async function fateOf(mutant) {
  const text = planted(mutant);
  if (text === undefined) return 'gone';
  const original = readFileSync(mutant.file, 'utf8');
  const restore = () => writeFileSync(mutant.file, original);
  process.once('SIGINT', () => {
    restore();
    process.exit(130);
  });
  writeFileSync(mutant.file, text);
  try {
    for (const stage of STAGES) if (!(await passes(stage))) return stage.name;
    return 'survived';
  } finally {
    restore();
    process.removeAllListeners('SIGINT');
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
    if (fate === 'survived') console.log(`survived: ${mutant.file}:${mutant.line} ${mutant.mutated.trim()}`);
  }
  const count = (wanted) => fates.filter((fate) => fate === wanted).length;
  console.log(
    `${killed.length} were killed before: ${count('survived')} survive now, of ${count('gone')} the code is gone.`,
  );
  if (count('survived') > 0) process.exitCode = 1;
}

await (process.argv.includes('--check') ? check() : record());
