import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach } from 'vitest';

/** The text of a `SKILL.md`. */
export const skillMd = (name: string, description = `Does ${name}.`, body = `# ${name}\n`): string =>
  `---\nname: ${name}\ndescription: ${description}\n---\n\n${body}`;

/** A folder of skills that a test may change. */
export interface TestFolder {
  readonly path: string;
  /** Writes files by path below the folder. */
  write(files: Readonly<Record<string, string | Uint8Array>>): Promise<void>;
}

/** Makes folders of skills; each is removed after its test. */
export function skillFolders(): (files?: Readonly<Record<string, string | Uint8Array>>) => Promise<TestFolder> {
  const made: string[] = [];
  afterEach(async () => {
    for (const path of made.splice(0)) await rm(path, { recursive: true, force: true });
  });
  return async (files = {}) => {
    const root = await mkdtemp(join(tmpdir(), 'skills-'));
    made.push(root);
    const path = join(root, 'skills');
    await mkdir(path);
    const write: TestFolder['write'] = async (more) => {
      for (const [name, content] of Object.entries(more)) {
        await mkdir(dirname(join(path, name)), { recursive: true });
        await writeFile(join(path, name), content);
      }
    };
    await write(files);
    return { path, write };
  };
}
