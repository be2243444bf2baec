// What the pages of the documentation tell users to write: taken from there, so that it works as it is shown.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './run.mjs';

const BLOCK = /<!-- check: (?<name>.+) -->\n\n```\w+\n(?<code>[^]*?)```/g;

const blocks = new Map();
for (const page of ['getting-started.md', 'compatibility.md', 'testing.md']) {
  for (const { groups } of readFileSync(join(root, 'docs', page), 'utf8').matchAll(BLOCK)) {
    const { name, code } = groups;
    if ((blocks.get(name) ?? code) !== code)
      throw new Error(`two pages show different blocks "<!-- check: ${name} -->"`);
    blocks.set(name, code);
  }
}

/** @returns the block of code under `<!-- check: name -->` */
export function shown(name) {
  const code = blocks.get(name);
  if (code === undefined) throw new Error(`no page has a block "<!-- check: ${name} -->"`);
  return code;
}

/** The line that lets jest turn this package into CommonJS, as a part of its configuration. */
export const forJest = JSON.parse(`{${shown('jest')}}`);
/** The same for Nest 12, whose packages SWC must turn into CommonJS, too. */
export const forJestWithSwc = JSON.parse(`{${shown('jest with SWC')}}`);
