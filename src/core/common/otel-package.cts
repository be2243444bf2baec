/**
 * Loads `@opentelemetry/api` when it is first needed: it is optional. A file of CommonJS, for its `require`: jest
 * cannot turn `import.meta` into CommonJS. Bundlers find what a call names in full, and within `try` they build without
 * it, too.
 *
 * @throws Error with the code MODULE_NOT_FOUND
 */
export function requireOtelApi(): unknown {
  try {
    // oxlint-disable-next-line typescript/no-require-imports
    return require('@opentelemetry/api') as unknown;
    // oxlint-disable-next-line eslint/no-useless-catch
  } catch (error) {
    throw error;
  }
}
