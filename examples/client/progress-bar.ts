const WIDTH = 30;
/** Columns of a terminal that does not say how many it has. */
const COLUMNS = 80;

/** `[#########---------------------]  3/10 notes.md`; without a total it is only counted. */
export function progressBar(done: number, total?: number, message = ''): string {
  if (total === undefined || total <= 0) return `${done} ${message}`.trimEnd();
  const filled = Math.round(Math.max(0, Math.min(done / total, 1)) * WIDTH);
  const bar = '#'.repeat(filled).padEnd(WIDTH, '-');
  return `[${bar}] ${`${done}`.padStart(`${total}`.length)}/${total} ${message}`.trimEnd();
}

/** One line of output; a passing one is overwritten by the next. */
export interface Line {
  readonly text: string;
  readonly passing: boolean;
}

/** What is written to, such as `process.stdout`. */
export interface Output {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

/** Writes a line: on a terminal over the passing one before, else below it. Messages of servers cannot steer the terminal. */
export function writeLine(out: Output, { text, passing }: Line): void {
  const plain = text.replaceAll(/[^\P{Cc}\n\t]/gu, '?');
  if (!out.isTTY) out.write(`${plain}\n`);
  // The first column, and what is left there of the line before: erased. Of two rows only the lower one would be.
  else
    out.write(
      `\r\u001B[2K${passing ? plain.replaceAll(/\s/g, ' ').slice(0, (out.columns ?? COLUMNS) - 1) : `${plain}\n`}`,
    );
}
