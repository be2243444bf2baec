// How far the house is: `npm run x -- house`. What the core imports of features, the ways in that features use, the parts that the module
// injects, and the internal names of each feature. The rules themselves are in test/architecture/features.ts.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { runnerImport } from 'vite';
import { root } from './build.mjs';

const load = async (name) => (await runnerImport(join(root, 'test/architecture', name))).module;
const [{ importsOfFeatures, internalNames, mostOf, rolesOfFeatures, WAYS_IN }, { readSources }] = await Promise.all([
  load('features.ts'),
  load('sources.ts'),
]);
const files = readSources('src');

const imports = importsOfFeatures(files);
const modules = new Set(imports.map(({ path, source }) => `${path} → ${source}`));
console.log(`${modules.size} imports from core into features`);
for (const each of modules) console.log(`    ${each}`);

const roles = [...rolesOfFeatures(files)];
const others = roles.filter(([role]) => !Object.values(WAYS_IN).flat().includes(role));
console.log(`${Object.keys(WAYS_IN).length} ways in: ${Object.keys(WAYS_IN).join(', ')}; ${others.length} others`);
for (const [role, features] of others) console.log(`    ${role} (${features.join(', ')})`);

const module = readFileSync(join(root, 'src/mcp-streamable.module.ts'), 'utf8');
const [injecting] = /\n {2}constructor\([^{]*/.exec(module) ?? [''];
console.log(`${injecting.split('@Inject(').length - 1} parts injected into McpStreamableModule`);

console.log('internal names of each feature');
for (const [feature, names] of internalNames(files)) {
  const most = mostOf(feature);
  const limit = most === Infinity ? 'an edge' : `at most ${most}`;
  if (names.size > 0) console.log(`    ${feature.padEnd(12)} ${String(names.size).padStart(3)}   ${limit}`);
}
