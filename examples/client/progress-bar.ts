const WIDTH = 30;

/** `[#########---------------------]  3/10 notes.md`; without a total it is only counted. */
export function progressBar(done: number, total?: number, message = ''): string {
  if (total === undefined || total <= 0) return `${done} ${message}`.trimEnd();
  const filled = Math.round((Math.min(done, total) / total) * WIDTH);
  const bar = '#'.repeat(filled).padEnd(WIDTH, '-');
  return `[${bar}] ${`${done}`.padStart(`${total}`.length)}/${total} ${message}`.trimEnd();
}
