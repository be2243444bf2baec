/** Which Node.js measures: the same LTS on every machine, not the version that a machine happens to have. */

/** The major for which the goals are set (goals.ts). */
export const MAJOR = 24;

/** The one platform for which npm has the binary: its package is named after it. */
const PACKAGED = 'linux-x64';

/** The Node.js that runs the script, as its `process` says. */
export type Running = Pick<NodeJS.Process, 'version' | 'execPath' | 'platform' | 'arch'>;

export interface Binary {
  readonly path: string;
  /** Why this is not the major that was asked for. */
  readonly notice?: string;
}

/** @returns the major that `--node` asks for, and the arguments that are left. @throws when it is no number */
export function askedFor(args: readonly string[]): { major: number; rest: string[] } {
  const at = args.findIndex((argument) => /^--node(?:=|$)/.test(argument));
  if (at < 0) return { major: MAJOR, rest: [...args] };
  const [, inline] = args[at]!.split('=');
  const value = inline ?? args[at + 1] ?? '';
  if (!/^\d+$/.test(value)) throw new Error(`--node must be a major version, such as ${MAJOR}; got "${value}".`);
  return { major: Number(value), rest: args.toSpliced(at, inline === undefined ? 2 : 1) };
}

/**
 * @param install brings that major from npm. Returns the path of the binary, or nothing where it does not run: it needs glibc
 * @returns the binary that measures: the machine's own where it is that major, else that of npm
 */
export function binaryOf(major: number, here: Running, install: (major: number) => string | undefined): Binary {
  if (majorOf(here.version) === major) return { path: here.execPath };
  const platform = `${here.platform}-${here.arch}`;
  const path = platform === PACKAGED ? install(major) : undefined;
  if (path !== undefined) return { path };
  const notice = `npm has no Node.js ${major} that runs here (${platform}): Node.js ${here.version} measures.`;
  return { path: here.execPath, notice };
}

/** @param version such as `v24.21.0` */
export function majorOf(version: string): number {
  return Number.parseInt(version.replace(/^v/, ''), 10);
}
