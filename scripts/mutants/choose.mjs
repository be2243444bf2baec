// Which mutants there are, and which are chosen: those of a room, in an order that depends on their text alone.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import ts from 'typescript';
import { occurrences, roomOf, SCRIPTS, sources } from './places.mjs';

/** Of each room. */
const FEWEST = 4;
/** More lines would make the record long. */
const MAX_LINES = 4;
/** A limit such as 10,000 that is larger by one is no other limit. */
const MAX_NUMBER = 10;
/** Logs are no behaviour, and no test sees which timers keep a process alive. */
const UNSEEN = /\blog(ger)?\b[^(]*\.(log|warn|debug|verbose|error)\(|\.unref\b|^console\./i;

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

/** In the scripts that Redis runs. */
const LUA_SWAPS = [
  [' == ', ' ~= '],
  [' ~= ', ' == '],
  [' <= ', ' < '],
  [' < ', ' <= '],
  [' >= ', ' > '],
  [' > ', ' >= '],
  [' and ', ' or '],
  [' or ', ' and '],
  [' not ', ' '],
];

/** @returns the texts that are replaced in a file, and by what */
function changesOf(file, text) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const found = [];
  const add = (node, replacement) => found.push({ start: node.getStart(source), end: node.getEnd(), replacement });
  const visit = (node) => {
    if (ts.isTypeNode(node) || ts.isImportDeclaration(node) || ts.isInterfaceDeclaration(node)) return;
    if (ts.isTemplateLiteral(node)) found.push(...changesOfLua(node.getStart(source), node.getText(source)));
    if (ts.isExpressionStatement(node)) {
      if (UNSEEN.test(node.getText(source))) return;
      add(node, ';');
    }
    if (ts.isBinaryExpression(node) && SWAPS.has(node.operatorToken.kind) && !concatenates(node)) {
      add(node.operatorToken, SWAPS.get(node.operatorToken.kind));
    }
    if ((ts.isIfStatement(node) || ts.isWhileStatement(node)) && !ts.isBinaryExpression(node.expression)) {
      add(node.expression, `!(${node.expression.getText(source)})`);
    }
    if (ts.isConditionalExpression(node)) add(node.condition, `!(${node.condition.getText(source)})`);
    if (node.kind === ts.SyntaxKind.TrueKeyword) add(node, 'false');
    if (node.kind === ts.SyntaxKind.FalseKeyword) add(node, 'true');
    if (ts.isNumericLiteral(node) && Number(node.text) <= MAX_NUMBER && !ts.isPrefixUnaryExpression(node.parent)) {
      add(node, `(${node.text} + 1)`);
    }
    if (ts.isReturnStatement(node) && node.expression && isEarly(node)) add(node, ';');
    ts.forEachChild(node, visit);
  };
  visit(source);
  return found;
}

const concatenates = ({ left, right }) =>
  [left, right].some((side) => ts.isStringLiteralLike(side) || ts.isTemplateExpression(side));

function isEarly(node) {
  const { parent } = node;
  return ts.isBlock(parent) && parent.statements.length > 1 && parent.statements.at(-1) !== node;
}

/** A template is a script if it calls Redis. */
function changesOfLua(start, text) {
  if (!/\bcall\('/.test(text)) return [];
  const swaps = LUA_SWAPS.flatMap(([was, replacement]) =>
    [...text.matchAll(new RegExp(was, 'g'))].map(({ index }) => ({
      start: index,
      end: index + was.length,
      replacement,
    })),
  );
  const calls = [...text.matchAll(/^ *(call\(.*\))$/gm)].map(({ index, 0: line, 1: call }) => ({
    start: index + line.length - call.length,
    end: index + line.length,
    replacement: '',
  }));
  const isCode = ({ start: at }) => !text.slice(text.lastIndexOf('\n', at), at).includes('--');
  return [...swaps, ...calls]
    .filter(isCode)
    .map((change) => ({ ...change, start: start + change.start, end: start + change.end, isLua: true }));
}

/** All mutants of a file. */
function mutantsOf(file) {
  const text = readFileSync(file, 'utf8');
  const mutants = changesOf(file, text).map(({ start, end, replacement, isLua }) => {
    const begin = text.lastIndexOf('\n', start - 1) + 1;
    const stop = text.indexOf('\n', end) < 0 ? text.length : text.indexOf('\n', end);
    const trimmed = (lines) =>
      lines
        .split('\n')
        .map((line) => line.trim())
        .join('\n');
    const mutant = {
      file,
      text: trimmed(text.slice(begin, stop)),
      mutated: trimmed(text.slice(begin, start) + replacement + text.slice(end, stop)),
    };
    const line = text.slice(0, begin).split('\n').length - 1;
    return { room: isLua ? SCRIPTS : roomOf(file), ...mutant, nth: occurrences(text, mutant).indexOf(line) };
  });
  return mutants.filter((mutant) => mutant.text.split('\n').length <= MAX_LINES);
}

export const keyOf = ({ text, mutated, nth }) => `${text}\n${mutated}\n${nth}`;

const orderOf = (mutant) => createHash('sha256').update(keyOf(mutant)).digest('hex');

/** Lines that are neither empty nor comments. */
const linesOfCode = (file) =>
  readFileSync(file, 'utf8')
    .split('\n')
    .filter((line) => !/^\s*(\/\/|\/?\*|$)/.test(line)).length;

/** How many mutants of each room there should be: by its lines of code. */
function shares(count) {
  const lines = new Map();
  for (const file of sources()) lines.set(roomOf(file), (lines.get(roomOf(file)) ?? 0) + linesOfCode(file));
  lines.set(SCRIPTS, lines.get('redis') / 2);
  lines.set('redis', lines.get('redis') / 2);
  const all = [...lines.values()].reduce((sum, one) => sum + one, 0);
  const free = count - FEWEST * lines.size;
  return new Map([...lines].map(([room, own]) => [room, FEWEST + Math.round((free * own) / all)]));
}

/** @returns new mutants, of rooms that have fewer than their share */
export function chosen(count, recorded) {
  const known = new Set(recorded.map(keyOf));
  const all = sources()
    .flatMap(mutantsOf)
    .filter((mutant) => !known.has(keyOf(mutant)));
  const sorted = all
    .map((mutant) => ({ mutant, order: orderOf(mutant) }))
    .toSorted((one, other) => (one.order < other.order ? -1 : 1))
    .map(({ mutant }) => mutant);
  return [...shares(count)].flatMap(([room, share]) => {
    const has = recorded.filter((mutant) => mutant.room === room && !mutant.equivalent).length;
    return sorted.filter((mutant) => mutant.room === room).slice(0, Math.max(0, share - has));
  });
}
