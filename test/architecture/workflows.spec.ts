import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

const FOLDER = new URL('../../.github/workflows/', import.meta.url);
const workflows = readdirSync(FOLDER).map((file) => ({ file, text: readFileSync(new URL(file, FOLDER), 'utf8') }));

describe('the workflows', () => {
  it.each(workflows)(
    '$file names actions by the hash of a commit, with their version, and has read access by default',
    ({ text }) => {
      const actions = [...text.matchAll(/\buses:\s*(.+)/g)].map(([, action]) => action!);
      expect(actions.length).toBeGreaterThan(0);
      for (const action of actions) expect(action).toMatch(/^[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/);
      expect(text).toMatch(/^permissions:\n {2}contents: read$/m);
    },
  );

  it('one tries each week what is new of Nest and of the SDK', () => {
    const canary = workflows.find(({ file }) => file === 'canary.yml')!.text;
    expect(canary).toMatch(/^ {4}- cron: '\d+ \d+ \* \* \d'$/m);
    expect(canary).toContain('tag: [latest, next]');
    expect(canary).toContain('node scripts/check-compat.mjs ${{ matrix.tag }}');
  });

  it('one publishes to npm, with provenance, and nothing else does', () => {
    const publishing = workflows.filter(({ text }) => text.includes('npm publish'));
    expect(publishing.map(({ file }) => file)).toEqual(['publish.yml']);
    expect(publishing[0]!.text).toContain('npm publish --provenance');
    expect(publishing[0]!.text).toMatch(/^ {4}permissions:\n {6}contents: read\n {6}id-token: write$/m);
    const release = JSON.parse(readFileSync(new URL('../../.release-it.json', import.meta.url), 'utf8'));
    expect(release.npm).toEqual({ publish: false });
  });
});
