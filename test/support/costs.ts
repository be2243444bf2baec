import { NestApplication } from '@nestjs/core';
import { afterAll } from 'vitest';

declare module 'vitest' {
  interface TaskMeta {
    /** Of a file. */
    costs?: { apps: number; cpuMs: number };
  }
}

const counted = globalThis as { startedApps?: number };

/** What a file of tests costs, which `npm run x -- test:costs` shows: the apps that it starts, and CPU time of its process. */
if (counted.startedApps === undefined) {
  counted.startedApps = 0;
  const { init } = NestApplication.prototype;
  NestApplication.prototype.init = function (this: NestApplication) {
    if (!this['isInitialized']) counted.startedApps! += 1;
    return init.call(this);
  };
}

const { startedApps } = counted;
const cpu = process.cpuUsage();

// oxlint-disable-next-line no-empty-pattern -- vitest reads from the pattern which fixtures are asked for
afterAll(({}, file) => {
  const { user, system } = process.cpuUsage(cpu);
  file.meta.costs = { apps: counted.startedApps! - startedApps, cpuMs: (user + system) / 1000 };
});
