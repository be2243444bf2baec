import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { Memory, Message, Question } from '../agent.js';
import { CORE, pin, pinnedTo } from './cores.js';

/** How long a server may take to listen, or to answer the bench, in milliseconds. */
const PATIENCE_MS = 120_000;

type Environment = Readonly<Record<string, string>>;

/** One server under measurement: a process, and what it says about itself. */
export class ServerProcess {
  #lastId = 0;
  readonly #waiting = new Map<number, { resolve: (answer: unknown) => void; reject: (error: Error) => void }>();

  private constructor(
    private readonly child: ChildProcess,
    readonly port: number,
  ) {
    child.on('message', (message: Message) => this.#receive(message));
    child.once('exit', (code, signal) => this.#gone(new Error(`The server ended (${signal ?? code}).`)));
  }

  /**
   * It gets its core when it listens: until then the load has nothing to do, and servers may start side by side.
   *
   * @param nodeArgs for the server's Node.js, for example a profiler
   * @throws when another Node.js runs it than the one that runs the bench, whose version is in the results
   */
  static async start(
    file: string,
    env: Environment,
    { nodeArgs = [], core = CORE.server }: { nodeArgs?: readonly string[]; core?: number } = {},
  ): Promise<ServerProcess> {
    const node = [process.execPath, '--expose-gc', '--max-old-space-size=6144', ...nodeArgs, file];
    const [command, ...args] = pinnedTo('any', node);
    const child = spawn(command, args, {
      env: { ...process.env, PORT: '0', ...env },
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const exit = once(child, 'exit', { signal }).then(([code]) => {
      throw new Error(`${file} ended with ${code} before it listened.`);
    });
    const [message] = (await Promise.race([once(child, 'message', { signal }), exit])) as [Message];
    exit.catch(() => {});
    if (!('listening' in message)) throw new Error(`${file} did not report its address.`);
    if (message.node !== process.version) {
      child.kill();
      throw new Error(`Node.js ${message.node} runs ${file}, and ${process.version} the bench: they must be the same.`);
    }
    pin(child.pid!, core);
    return new ServerProcess(child, message.listening);
  }

  /** Microseconds of CPU time that the process has had. */
  async cpu(): Promise<number> {
    return Number(await this.#ask('cpu'));
  }

  /** After a collection. */
  async memory(): Promise<Memory> {
    return (await this.#ask('memory')) as Memory;
  }

  /**
   * The memory of the process, in MiB: now, or the most since the last call of this method. 0 where the system does not tell it.
   */
  resident(what: 'now' | 'peak' = 'now'): number {
    if (process.platform !== 'linux') return 0;
    const folder = `/proc/${this.child.pid!}`;
    const line = what === 'peak' ? 'VmHWM' : 'VmRSS';
    const [, kibibytes] = new RegExp(`${line}:\\s+(\\d+)`).exec(readFileSync(`${folder}/status`, 'utf8'))!;
    // Resets the peak.
    writeFileSync(`${folder}/clear_refs`, '5');
    return Number(kibibytes) / 1024;
  }

  async notify(sequence: number): Promise<void> {
    await this.#ask('notify', sequence);
  }

  async gauges(): Promise<Record<string, number>> {
    return (await this.#ask('gauges')) as Record<string, number>;
  }

  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const exit = once(this.child, 'exit');
    this.#ask('stop').catch(() => {});
    await exit;
  }

  #ask(ask: Question['ask'], value?: number): Promise<unknown> {
    const id = ++this.#lastId;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      this.child.send({ id, ask, ...(value !== undefined && { value }) } satisfies Question, (error) => {
        if (error) this.#gone(error);
      });
    });
  }

  #receive(message: Message): void {
    if (!('id' in message)) return;
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if ('error' in message) waiting?.reject(new Error(message.error));
    else waiting?.resolve(message.answer);
  }

  #gone(error: Error): void {
    for (const { reject } of this.#waiting.values()) reject(error);
    this.#waiting.clear();
  }
}
