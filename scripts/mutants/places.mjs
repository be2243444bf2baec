// Where a mutant is. It is recorded by the text of its lines, without their indentation, and by which occurrence of this text it
// is, so that it is found again when code moves.
import { readdirSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import ts from 'typescript';

/** Contract tests are tests. The page of the live module is bundled past vitest, and is tested in Chromium alone. */
const NOT_PLANTED = /\.(spec|d)\.ts$|\.contract\.|\/index\.ts$|^src\/live\/page\//;
/** A shorter text, such as `return;`, is found by chance in another file. */
const TELLING = 20;

/** The files that mutants are planted in. */
export function sources() {
  return readdirSync('src', { encoding: 'utf8', recursive: true })
    .map((name) => `src/${name.replaceAll('\\', '/')}`)
    .filter((file) => file.endsWith('.ts') && !NOT_PLANTED.test(file))
    .toSorted((one, other) => (one < other ? -1 : 1));
}

/** The folder that a file belongs to: of the core the room, of its handlers the part. */
export function roomOf(file) {
  const [first, second, third, ...rest] = file.split('/').slice(1);
  if (second === undefined) return 'module';
  if (first !== 'core') return first;
  return second === 'handlers' && rest.length > 0 ? `handlers/${third}` : second;
}

/** What Redis runs is a room of its own. */
export const SCRIPTS = 'redis scripts';

/** @returns the numbers of the lines with which the text begins */
export function occurrences(text, mutant) {
  const [lines, wanted] = [text, mutant.text].map((one) => one.split('\n').map((line) => line.trim()));
  return lines.flatMap((_, at) => (wanted.every((line, next) => lines[at + next] === line) ? [at] : []));
}

/** @returns the mutant in the file that has its text today; nothing if it is gone */
export function located(mutant, files = sources()) {
  const has = (file) => occurrences(readFileSync(file, 'utf8'), mutant).length > mutant.nth;
  const name = basename(mutant.file);
  const others = files.filter((file) => basename(file) === name || mutant.text.length >= TELLING);
  const sorted = others.toSorted((one, other) => (basename(other) === name) - (basename(one) === name));
  const file = [...files.filter((one) => one === mutant.file), ...sorted].find(has);
  return file && { ...mutant, file, room: mutant.room === SCRIPTS ? SCRIPTS : roomOf(file) };
}

/** @returns the part of the text that the mutant replaces, and by what */
function changeOf(text, mutant) {
  const lines = text.split('\n');
  const first = occurrences(text, mutant)[mutant.nth];
  const { text: was, mutated: is } = mutant;
  let same = 0;
  while (same < was.length && was[same] === is[same]) same++;
  let after = 0;
  while (after < Math.min(was.length, is.length) - same && was.at(-1 - after) === is.at(-1 - after)) after++;
  // Positions in the text without indentation, as positions in the file.
  const inFile = (position) => {
    const before = was.slice(0, position).split('\n');
    const at = first + before.length - 1;
    return (
      lines.slice(0, at).reduce((sum, line) => sum + line.length + 1, 0) +
      lines[at].search(/\S|$/) +
      before.at(-1).length
    );
  };
  return {
    start: inFile(same),
    end: inFile(was.length - after),
    replacement: is.slice(same, is.length - after),
  };
}

/** @returns the text of the file with the mutant */
export function planted(text, mutant) {
  const { start, end, replacement } = changeOf(text, mutant);
  return text.slice(0, start) + replacement + text.slice(end);
}

/**
 * @returns the text of the file in which each mutant has an effect while `__is(id)` returns true, and the mutants for which this
 *   cannot be: their code runs when the module is loaded
 */
export function switched(file, text, mutants) {
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
  const places = [];
  const others = [];
  for (const mutant of mutants) {
    const change = changeOf(text, mutant);
    const place = placeOf(source, change);
    if (!place) {
      others.push(mutant);
      continue;
    }
    const { node, form } = place;
    const [start, end] = [node.getStart(source), node.getEnd()];
    const own = text.slice(start, change.start) + change.replacement + text.slice(change.end, end);
    const known = places.find((one) => one.start === start && one.end === end);
    if (known) known.mutants.push({ id: mutant.id, own });
    else places.push({ start, end, form, mutants: [{ id: mutant.id, own }] });
  }
  places.sort((one, other) => one.start - other.start || other.end - one.end);
  return { text: rendered(text, 0, text.length, places), others };
}

/** Of places that lie within each other, those inside are switched in the original code of the outer one. */
function rendered(text, start, end, places) {
  let result = '';
  let at = start;
  for (const [index, place] of places.entries()) {
    if (place.start < at) continue;
    const inside = places.slice(index + 1).filter((one) => one.end <= place.end);
    const original = rendered(text, place.start, place.end, inside);
    result += text.slice(at, place.start) + FORMS[place.form](place.mutants, original);
    at = place.end;
  }
  return result + text.slice(at, end);
}

const FORMS = {
  expression: (mutants, original) =>
    `(${mutants.map(({ id, own }) => `globalThis.__is?.(${id}) ? (${own}) : `).join('')}(${original}))`,
  statement: (mutants, original) =>
    `{${mutants.map(({ id, own }) => `if (globalThis.__is?.(${id})) {${own}} else `).join('')}{${original}}}`,
};

/** @returns the smallest expression or statement around a change that can be switched */
function placeOf(source, { start, end }) {
  for (let node = nodeAt(source, start, end); node.parent; node = node.parent) {
    const { parent } = node;
    if (ts.isSourceFile(parent)) return undefined;
    if (
      ts.isPropertyDeclaration(parent) &&
      parent.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.StaticKeyword)
    ) {
      return undefined;
    }
    const isBody = ts.isArrowFunction(parent) && parent.body === node && !ts.isBlock(node);
    const isValue = HAS_VALUE.some((is) => is(parent)) && parent.initializer === node;
    if ((isBody || isValue) && isRunLater(node)) return { node, form: 'expression' };
    if (ts.isStatement(node) && !NOT_SWITCHED.some((is) => is(node)) && isRunLater(node)) {
      return /^super\b/.test(node.getText(source)) ? undefined : { node, form: 'statement' };
    }
  }
  return undefined;
}

const HAS_VALUE = [ts.isVariableDeclaration, ts.isBindingElement, ts.isPropertyDeclaration, ts.isParameter];
const NOT_SWITCHED = [ts.isBlock, ts.isVariableStatement, ts.isFunctionDeclaration, ts.isClassDeclaration];

/** Whether it is in a function, or is a value of each instance. */
function isRunLater(node) {
  return ts.findAncestor(node, (one) => ts.isFunctionLike(one) || ts.isPropertyDeclaration(one)) !== undefined;
}

/** @returns the smallest node around a part of the text */
function nodeAt(source, start, end) {
  let node = source;
  for (;;) {
    const child = ts.forEachChild(node, (one) =>
      one.getStart(source) <= start && Math.max(end, start + 1) <= one.getEnd() ? one : undefined,
    );
    if (!child) return node;
    node = child;
  }
}
