// What `npm test` says: a line for each folder of tests when its last file has ended, what failed, and why tests were skipped.
import { dirname, relative } from 'node:path';
import { MinimalReporter } from 'vitest/node';

const NO_REASON = 'of another adapter or era, or for npm run test:all or test:long';

/** `test/handlers` and `src/core/log` are groups; what lies deeper belongs to them. */
function groupOf(file) {
  const folders = dirname(relative(process.cwd(), file)).split('/');
  const depth = folders[1] === 'core' ? 3 : 2;
  return folders.slice(0, depth).join('/');
}

// oxlint-disable-next-line import/no-default-export -- vitest loads a reporter by its path
export default class GroupsReporter extends MinimalReporter {
  #groups;
  #began = 0;

  onTestRunStart(specifications) {
    super.onTestRunStart(specifications);
    this.#began = performance.now();
    this.#groups = new Map();
    for (const { moduleId } of specifications) {
      const group = this.#group(moduleId);
      group.open += 1;
    }
    this.log(`${specifications.length} files of tests in ${this.#groups.size} folders`);
  }

  onTestModuleEnd(module) {
    super.onTestModuleEnd(module);
    const group = this.#group(module.moduleId);
    group.open -= 1;
    group.ms += module.diagnostic().duration;
    if (!module.ok()) group.failed = true;
    for (const test of module.children.allTests()) {
      const { state, note } = test.result();
      if (state === 'skipped') group.skipped.push(note ?? NO_REASON);
      else group.cases += 1;
    }
    if (group.open === 0) this.#say(group);
  }

  onTestRunEnd(modules, errors, reason) {
    super.onTestRunEnd(modules, errors, reason);
    const skipped = [...this.#groups.values()].flatMap((group) => group.skipped);
    for (const text of new Set(skipped)) {
      this.log(`${skipped.filter((other) => other === text).length} skipped: ${text}`);
    }
    if (process.env.COSTS) this.#sayCosts(modules);
  }

  /** The dearest files. */
  #sayCosts(modules) {
    const files = modules
      .map((module) => ({ name: relative(process.cwd(), module.moduleId), ...module.meta().costs }))
      .filter(({ cpuMs }) => cpuMs !== undefined)
      .toSorted((one, other) => other.cpuMs - one.cpuMs);
    for (const { name, apps, cpuMs } of files.slice(0, Number(process.env.COSTS))) {
      this.log(`${(cpuMs / 1000).toFixed(2).padStart(8)} CPU s ${String(apps).padStart(5)} apps  ${name}`);
    }
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const { user, system } = process.cpuUsage();
    const seconds = sum(files.map(({ cpuMs }) => cpuMs)) / 1000;
    const apps = sum(files.map((file) => file.apps));
    this.log(
      `${seconds.toFixed(0)} CPU s and ${apps} apps in ${files.length} files; ${((user + system) / 1e6).toFixed(0)} CPU s around them`,
    );
  }

  #group(file) {
    const name = groupOf(file);
    const known = this.#groups.get(name);
    if (known) return known;
    const group = { name, open: 0, cases: 0, ms: 0, failed: false, skipped: [] };
    this.#groups.set(name, group);
    return group;
  }

  #say({ name, cases, ms, failed }) {
    const seconds = (value) => `${(value / 1000).toFixed(1)} s`.padStart(8);
    const at = seconds(performance.now() - this.#began);
    this.log(
      `${at} ${failed ? 'NOT OK' : 'ok'.padEnd(6)} ${name.padEnd(24)}${String(cases).padStart(6)} cases in${seconds(ms)}`,
    );
  }
}
