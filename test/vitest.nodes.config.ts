import { defineConfig, mergeConfig } from 'vitest/config';
import configOf from '../vitest.config.js';

const base = configOf({ mode: 'nodes', command: 'serve' });
const { projects: _, ...test } = base.test!;

/** The end-to-end suite with the requests of each test spread over two nodes, on a real Redis. */
export default mergeConfig(
  { ...base, test },
  defineConfig({
    test: {
      name: 'nodes',
      include: ['test/{legacy,handlers,modern}/**/*.spec.ts'],
      // Apps that are no `TestApp` are one process there too, as are those of test/module and test/session.
      // Of a broken envelope each node warns once, which is twice here.
      exclude: ['test/handlers/{attacks-discovery,discovery,endpoints,envelopes,list-guards,memory,registry}.spec.ts'],
      setupFiles: ['test/support/quiet.ts', 'test/support/file-setup.ts', 'test/support/nodes-setup.ts'],
      env: { NODES: '2' },
    },
  }),
);
