import { assertNames, McpOptionError } from './options.js';

/** A `forRootAsync()` of Nest takes these, beside what a module needs before its factory runs. */
const ASYNC_NAMES = ['useFactory', 'useClass', 'useExisting', 'inject', 'provideInjectionTokensFrom', 'imports'];

/**
 * Checks the argument of a `forRootAsync()` before Nest reads it.
 *
 * @param module names the class in messages, such as `McpLiveModule`
 * @param early the options that stand beside the factory
 * @param made the options that the factory makes
 * @throws McpOptionError
 */
export function assertAsyncOptions(
  module: string,
  options: unknown,
  { early, made }: { early: readonly string[]; made: readonly string[] },
): asserts options is object {
  const sources = 'Give "useFactory", "useClass" or "useExisting".';
  if (typeof options !== 'object' || options === null) {
    const text = `${module}.forRootAsync() takes an object of options; got ${String(options)}. ${sources}`;
    throw new McpOptionError('options', text);
  }
  const misplaced = Object.keys(options).find((name) => made.includes(name));
  if (misplaced) {
    const text = `The option "${misplaced}" was passed to forRootAsync() beside the factory, where it has no effect. Return it from the factory.`;
    throw new McpOptionError(misplaced, text);
  }
  assertNames([...ASYNC_NAMES, ...early], options);
  const given = options as { useFactory?: unknown; useClass?: unknown; useExisting?: unknown };
  if (given.useFactory ?? given.useClass ?? given.useExisting) return;
  throw new McpOptionError('useFactory', `${module}.forRootAsync() has no source of its options. ${sources}`);
}
