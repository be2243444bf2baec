// Removes what a build made before, so that a file whose source is gone cannot be packed or run.
import { rmSync } from 'node:fs';

for (const path of process.argv.slice(2)) rmSync(path, { recursive: true, force: true });
