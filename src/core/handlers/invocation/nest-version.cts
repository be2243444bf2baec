/**
 * The version of `@nestjs/core`. A file of CommonJS, for its `require`: jest cannot turn `import.meta` into CommonJS, and bundlers
 * find what a call names in full.
 */
export const nestVersion = versionOfCore();

function versionOfCore(): string {
  try {
    // oxlint-disable-next-line typescript/no-require-imports
    return (require('@nestjs/core/package.json') as { readonly version: string }).version;
  } catch {
    // Nest 12 exports the file from 12.2.0 on.
    return '12.1 or older';
  }
}
