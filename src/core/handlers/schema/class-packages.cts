/**
 * Loads class-validator and class-transformer when they are first needed: they are optional. A file of CommonJS, for
 * its `require`: jest cannot turn `import.meta` into CommonJS. Bundlers find what a call names in full, and within
 * `try` they build without it, too.
 *
 * @throws Error with the code MODULE_NOT_FOUND
 */
export function requireClassPackages(): Record<'validator' | 'transformer' | 'storage' | 'executor', unknown> {
  try {
    /* oxlint-disable typescript/no-require-imports */
    return {
      validator: require('class-validator') as unknown,
      transformer: require('class-transformer') as unknown,
      // Its index does not export these; Nest's own plugins look into the storage, too.
      storage: require('class-transformer/cjs/storage.js') as unknown,
      executor: require('class-transformer/cjs/TransformOperationExecutor.js') as unknown,
    };
    /* oxlint-enable typescript/no-require-imports */
    // oxlint-disable-next-line eslint/no-useless-catch
  } catch (error) {
    throw error;
  }
}
