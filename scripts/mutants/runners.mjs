import { fork } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** So long after the last sign of a test, a mutant makes it hang. */
const SILENCE_MS = 60_000;
/** The process starts in seconds, on a busy machine in minutes. */
const START_MS = 600_000;

/** The process of runner.mjs, which is replaced when a mutant makes it hang. Starts with `options` for it. */
export class Runner {
  #child;
  #said;
  #files;
  #wake = () => {};

  constructor(options) {
    this.options = options;
  }

  /** @returns the files of tests that there are */
  async files() {
    await this.#start();
    return this.#files;
  }

  /** @returns what failed, or the test that hangs; and the files with the tests that passed */
  async run(order, log) {
    await this.#start();
    this.#child.send(order);
    let last;
    for (;;) {
      const message = await this.#next(SILENCE_MS, log);
      if (message?.modules) return message;
      if (message?.file) last = message;
      else {
        this.close();
        return { failures: [last ?? { file: undefined }], modules: [], hangs: true };
      }
    }
  }

  close() {
    if (!this.#child) return;
    try {
      // The processes of the tests are in its group.
      process.kill(-this.#child.pid, 'SIGKILL');
    } catch {
      // It has ended.
    }
    this.#child = undefined;
  }

  async #start() {
    if (this.#child) return;
    const path = fileURLToPath(new URL('runner.mjs', import.meta.url));
    const child = fork(path, [JSON.stringify(this.options)], {
      detached: true,
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    this.#child = child;
    this.#said = [];
    child.on('message', (message) => this.#hear(message));
    child.on('exit', () => this.#hear(undefined));
    const message = await this.#next(START_MS);
    if (!message?.files) throw new Error('The process for tests does not start.');
    this.#files = message.files;
  }

  #hear(message) {
    this.#said.push(message);
    this.#wake();
  }

  /** @returns the next message; nothing if the process has ended, or gives no sign */
  async #next(limitMs, log) {
    while (this.#said.length === 0) {
      const over = new AbortController();
      const heard = new Promise((resolve) => (this.#wake = resolve));
      const silent = delay(limitMs, 'silent', { signal: over.signal }).catch(() => {});
      const came = await Promise.race([heard, silent]);
      over.abort();
      if (came === 'silent' && !(log && Date.now() - log.changedAt < limitMs)) break;
    }
    return this.#said.shift();
  }
}
