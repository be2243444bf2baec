// What would be published: packs the package, looks into the tarball, lints it, and looks at what it loads. `check:compat` packs it too, and
// installs it. And what `npm ci` of the repository says.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { minVersion, satisfies } from 'semver';
import { assertNone, root, step } from './package/run.mjs';
import { checkLoaded, makeTarball, manifest } from './package/tarball.mjs';

/** npm warns of each package that does not take the Node on which it is installed. The oldest one must do, else see `overrides`. */
function checkEngines() {
  const oldest = minVersion(manifest.engines.node);
  const { packages } = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8'));
  const installed = Object.entries(packages).filter(([, { optional, engines }]) => !optional && engines?.node);
  const unfit = installed.filter(([, { engines }]) => !satisfies(oldest, engines.node));
  assertNone(
    unfit.map(([path, { version, engines }]) => `${path} ${version} needs Node ${engines.node}, not ${oldest}`),
  );
}

const temporary = mkdtempSync(join(tmpdir(), 'check-package-'));
try {
  console.log(`${manifest.name} ${manifest.version}`);
  await step('the packages of the repository take the oldest Node', checkEngines);
  const tarball = await makeTarball(temporary);
  await step('what an app does not use is not loaded', () => checkLoaded(tarball, temporary));
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(temporary, { recursive: true, force: true });
}
