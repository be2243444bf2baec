/**
 * What is written past the console, as Nest's logger does, goes through it: so vitest knows which test wrote it, and shows that of
 * failed tests alone.
 */
const { _stdout, _stderr } = console as unknown as Record<'_stdout' | '_stderr', NodeJS.WriteStream>;
process.stdout.write = _stdout.write.bind(_stdout);
process.stderr.write = _stderr.write.bind(_stderr);
