// npm calls this before it packs or publishes: builds, and puts what is published in the place of `dist`. The result of the compiler waits in
// build/dist until scripts/postpack.mjs, or the next build if npm was killed, puts it back: then nothing has to be compiled again.
import { renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { acquire, compile, dist, keepForNpm, plainDist, putBack, release, root } from './build.mjs';
import { writePackage } from './join.mjs';

const packed = join(root, 'build/package');

await acquire();
try {
  await compile('src/tsconfig.build.json');
  rmSync(packed, { recursive: true, force: true });
  await writePackage(packed);
  renameSync(dist, plainDist);
  renameSync(packed, dist);
  keepForNpm();
} catch (error) {
  putBack();
  release();
  throw error;
}
