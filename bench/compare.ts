import { parseArgs } from 'node:util';
import { compared } from './harness/comparison.js';
import { lastKept, read } from './harness/results.js';

/** `npm run bench -- --compare [files]`: whether runs say the same. Without files, the last two. */

const { positionals } = parseArgs({ options: { compare: { type: 'boolean' } }, allowPositionals: true });
const files = positionals.length > 0 ? positionals : lastKept(2);
const { text, stable } = compared(files.map((file) => ({ file, ...read(file) })));
console.log(text);
if (!stable) process.exitCode = 1;
