// What would be published: packs the package, looks into the tarball and lints it. `check:compat` does so too, and installs it.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeTarball, manifest } from './package/tarball.mjs';

const temporary = mkdtempSync(join(tmpdir(), 'check-package-'));
try {
  console.log(`${manifest.name} ${manifest.version}`);
  await makeTarball(temporary);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(temporary, { recursive: true, force: true });
}
