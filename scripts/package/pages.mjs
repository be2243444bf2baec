// What the pages of the documentation tell users to write: taken from there, so that it works as it is shown.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './run.mjs';

const BLOCK = /<!-- check: (?<name>.+) -->\n\n```\w+\n(?<code>[^]*?)```/g;

const blocks = new Map(
  ['getting-started.md', 'compatibility.md'].flatMap((page) =>
    [...readFileSync(join(root, 'docs', page), 'utf8').matchAll(BLOCK)].map(({ groups }) => [groups.name, groups.code]),
  ),
);

/** @returns the block of code under `<!-- check: name -->` */
export function shown(name) {
  const code = blocks.get(name);
  if (code === undefined) throw new Error(`no page has a block "<!-- check: ${name} -->"`);
  return code;
}

/** The line that lets jest turn this package into CommonJS, as a part of its configuration. */
export const forJest = JSON.parse(`{${shown('jest')}}`);
