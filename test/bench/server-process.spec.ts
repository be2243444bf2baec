import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { ServerProcess } from '../../bench/harness/server-process.js';

const folder = mkdtempSync(join(tmpdir(), 'mcp-bench-server-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A server that says it is run by a version, and answers every question with the binary that runs it. */
function serverOf(version: string): string {
  const file = join(folder, `${version}.mjs`);
  const answers = 'process.send({ id, answer: process.execPath }); if (ask === "stop") process.exit();';
  writeFileSync(
    file,
    `process.on('message', ({ id, ask }) => { ${answers} });
    process.on('disconnect', () => process.exit());
    process.send({ listening: 1, node: '${version}' });`,
  );
  return file;
}

describe('a server under measurement', () => {
  it('a server under measurement is run by the Node.js that runs the bench', async () => {
    const server = await ServerProcess.start(serverOf(process.version), {});
    expect(await server.gauges()).toBe(process.execPath);
    await server.stop();
  });

  it('a server under measurement is refused when another Node.js runs it', async () => {
    const file = serverOf('v1.2.3');
    await expect(ServerProcess.start(file, {})).rejects.toThrow(
      `Node.js v1.2.3 runs ${file}, and ${process.version} the bench: they must be the same.`,
    );
  });
});
