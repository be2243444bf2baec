import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/**
 * Makes a database, and removes it when the input ends. So nothing is left behind, however
 * the process of the app ends.
 */
const SCRIPT = `
trap 'rm -rf "$DIR"' EXIT
initdb -D "$DIR/data" -U crm --auth trust --no-sync --encoding UTF8 --locale C &&
  pg_ctl start -w -D "$DIR/data" -l "$DIR/log" -o "-h 127.0.0.1 -p $DB_PORT -k $DIR -F" ||
  exit 1
echo 'It is up.'
cat >/dev/null
pg_ctl stop -m immediate -D "$DIR/data"
`;

/** Debian and Homebrew have the programs in folders that are not in the PATH. */
const FOLDERS = ['/usr/lib/postgresql', '/opt/homebrew/opt'];

export interface ThrowAwayDatabase {
  readonly url: string;
  stop(): Promise<void>;
}

/** @returns the folder of the programs of PostgreSQL */
export function findPostgres(): string | undefined {
  const others = FOLDERS.filter(existsSync).flatMap((folder) =>
    readdirSync(folder).map((name) => join(folder, name, 'bin')),
  );
  return [...(process.env['PATH'] ?? '').split(delimiter), ...others].find((folder) =>
    ['initdb', 'pg_ctl'].every((program) => existsSync(join(folder, program))),
  );
}

/** A PostgreSQL for the time of this process, for development and tests. */
export async function startThrowAwayDatabase(): Promise<ThrowAwayDatabase> {
  const bin = findPostgres();
  if (bin === undefined)
    throw new Error('No PostgreSQL was found. Install it, or set DATABASE_URL.');
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), 'crm-'));
  const server = spawn('sh', ['-c', SCRIPT], {
    ...ownerOf(folder),
    cwd: folder,
    // Ctrl-C in a terminal ends the app first.
    detached: true,
    env: { PATH: `${bin}:${process.env['PATH']}`, DIR: folder, DB_PORT: `${port}` },
  });
  const ended = once(server, 'exit');
  let output = '';
  await new Promise<void>((resolve, reject) => {
    const read = (text: Buffer): void => {
      output += text.toString();
      if (output.includes('It is up.')) resolve();
    };
    server.stdout.on('data', read);
    server.stderr.on('data', read);
    server.once('exit', () => reject(new Error(`PostgreSQL did not start. ${output}`)));
  });
  // It does not keep the process of the app running.
  server.unref();
  for (const stream of server.stdio) (stream as Socket | null)?.unref();
  return {
    url: `postgres://crm@127.0.0.1:${port}/postgres`,
    stop: async () => {
      server.ref();
      server.stdin.end();
      await ended;
    },
  };
}

/** PostgreSQL refuses to run as root: in a container the owner is its own user. */
function ownerOf(folder: string): { uid?: number; gid?: number } {
  if (process.getuid?.() !== 0) return {};
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((each) => each.startsWith('postgres:'));
  if (line === undefined) return {};
  const [, , uid, gid] = line.split(':').map(Number) as [number, number, number, number];
  chownSync(folder, uid, gid);
  return { uid, gid };
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  return port;
}
