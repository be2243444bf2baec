import { mergeConfig } from 'vitest/config';
import base from '../../vitest.config.js';

/** The plugin plants mutants in what vitest loads: no file changes, so that several runners work at once. See runner.mjs. */
export default (environment) =>
  mergeConfig(base(environment), {
    plugins: [{ name: 'mutants', enforce: 'pre', transform: (code, id) => globalThis.mutants.transform(code, id) }],
    test: globalThis.mutants.test,
  });
