import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';

const FOLDER = new URL('../../.github/workflows/', import.meta.url);
const workflows = readdirSync(FOLDER).map((file) => ({ file, text: readFileSync(new URL(file, FOLDER), 'utf8') }));

interface Workflow {
  readonly permissions: Record<string, string>;
  readonly jobs: Record<string, Job>;
}

interface Job {
  readonly needs?: string;
  readonly permissions?: Record<string, string>;
  readonly steps: readonly { readonly uses?: string; readonly run?: string }[];
}

const jobsOf = (text: string): (Job & { readonly may: Record<string, string> })[] => {
  const { permissions, jobs } = parse(text) as Workflow;
  return Object.values(jobs).map((job) => ({ ...job, may: job.permissions ?? permissions }));
};

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

  it.each(workflows)(
    '$file may write only in jobs that run no code of the repository or of its dependencies',
    ({ text }) => {
      const writing = jobsOf(text).filter(({ may }) => Object.values(may).includes('write'));
      for (const { steps } of writing) {
        expect(steps.flatMap(({ uses = '' }) => /^actions\/checkout@/.exec(uses) ?? [])).toEqual([]);
        const runs = steps.flatMap(({ run = [] }) => run);
        // A tarball that is published by its path has no dependencies installed, and no scripts run.
        expect(runs.filter((run) => !/^npm publish .*--ignore-scripts "\.\/[^"]+\.tgz"$/.test(run))).toEqual([]);
      }
    },
  );

  it('one publishes to npm, with provenance, and nothing else does', () => {
    const publishing = workflows.filter(({ text }) => text.includes('npm publish'));
    expect(publishing.map(({ file }) => file)).toEqual(['publish.yml']);
    expect(publishing[0]!.text).toContain('npm publish --provenance');
    const [build, publish, ...more] = jobsOf(publishing[0]!.text);
    expect(more).toEqual([]);
    expect(publish).toMatchObject({ needs: 'build', may: { 'id-token': 'write' } });
    expect(build!.may).toEqual({ contents: 'read' });
    const runs = build!.steps.flatMap(({ run = [] }) => run);
    expect(runs.filter((run) => /\bnpm (?:ci|install|pack)\b/.test(run))).toEqual([
      'npm ci --ignore-scripts',
      expect.stringMatching(/ npm pack --ignore-scripts /),
    ]);
    const release = JSON.parse(readFileSync(new URL('../../scripts/release-it.json', import.meta.url), 'utf8'));
    expect(release.npm).toEqual({ publish: false });
  });
});
