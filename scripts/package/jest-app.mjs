// Tests of apps in CommonJS by jest, with the configuration that docs/testing.md shows, of a tool and of access tokens.
import { rejects } from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { edit, editJson, sourceOf } from './nest-app.mjs';
import { forJestWithSwc, shown } from './pages.mjs';
import { install, root, run } from './run.mjs';
import { manifest } from './tarball.mjs';

const { jose } = manifest.devDependencies;

/** Adds the module of the page, whose endpoint verifies tokens with `jose`, and its test. */
export function addNotes(folder, commonJs) {
  for (const name of ['notes.module.ts', 'notes.module.spec.ts']) {
    writeFileSync(join(folder, name), sourceOf(join(root, 'examples/snippets', name), commonJs));
  }
}

/** To an app of `nest new` 12 in CommonJS: the module, and the packages of the page. */
export async function addNotesAndSwc(app) {
  addNotes(join(app, 'src'), true);
  editJson(join(app, 'package.json'), (json) => {
    json.dependencies.jose = jose;
    Object.assign(json.devDependencies, { '@swc/core': '^1.16.0', '@swc/jest': '^0.2.39' });
  });
  await install(app);
}

/** Writes the configuration for SWC into the files of `nest new` 12. */
export function useSwc(app) {
  writeFileSync(join(app, '.swcrc'), shown('.swcrc'));
  editJson(join(app, 'test/jest-e2e.json'), (json) => Object.assign(json, forJestWithSwc));
  edit(join(app, 'jest.config.ts'), (text) => {
    const changed = text.replace(/transform: \{[^}]*\},/, () => `${shown('jest with SWC').trimEnd()},`);
    if (changed === text) throw new Error(`no "transform" in:\n${text}`);
    return changed;
  });
}

/** Runs unit and e2e tests. @param options of Node */
export async function testByJest(app, node, ...options) {
  const jest = [...options, 'node_modules/jest/bin/jest.js', '--cacheDirectory', join(app, 'jest-cache')];
  await run(node, jest, { cwd: app });
  await run(node, [...jest, '--config', 'test/jest-e2e.json'], { cwd: app });
}

/** Leaves out of the line one package after the other: jest must name it in its error, as the page says. */
export async function testErrors(app, node, { transformIgnorePatterns: [line] }) {
  const names = ['nestjs-mcp-streamable', 'jose', '@nestjs'].filter((name) => line.includes(name));
  for (const name of names) {
    const without = ['--transformIgnorePatterns', line.replace(name, 'left-out')];
    const jest = ['node_modules/jest/bin/jest.js', 'notes', '--cacheDirectory', join(app, 'jest-cache'), ...without];
    const error = new RegExp(`Must use import to load ES Module: \\S+/node_modules/${name}/`);
    await rejects(run(node, jest, { cwd: app }), error, `without ${name}`);
  }
}
