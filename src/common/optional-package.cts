/**
 * Loads a package that an app may lack, in the moment when it is needed. A file of CommonJS, for its `require`: the other way
 * to load synchronously, `createRequire(import.meta.url)`, is a syntax error where a test runner turns ES modules into
 * CommonJS, as jest does.
 *
 * @throws Error with the code MODULE_NOT_FOUND
 */
export function requirePackage(name: string): unknown {
  // oxlint-disable-next-line typescript/no-require-imports
  return require(name) as unknown;
}
