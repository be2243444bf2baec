import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * npm writes down what it installed: without a difference there is nothing to do.
 *
 * @param folder with a package-lock.json of its own
 */
export function isInstalled(folder) {
  const hidden = join(folder, 'node_modules/.package-lock.json');
  if (!existsSync(hidden)) return false;
  const [wanted, there] = [join(folder, 'package-lock.json'), hidden].map(
    (file) => JSON.parse(readFileSync(file, 'utf8')).packages,
  );
  // The first entry is the folder itself; what is optional may be for other machines.
  const needed = Object.entries(wanted).filter(([path, { optional }]) => path !== '' && !optional);
  return needed.every(([path, { version }]) => there[path]?.version === version);
}
