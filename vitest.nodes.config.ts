import { defineConfig, mergeConfig } from 'vitest/config';
import base from './vitest.config.js';

const { projects: _, ...test } = base.test!;

/** The end-to-end suite with the requests of each test spread over two nodes, on a real Redis. */
export default mergeConfig(
  { ...base, test },
  defineConfig({
    test: {
      name: 'nodes',
      include: ['test/{legacy,handlers,modern,session,module}/**/*.spec.ts'],
      setupFiles: ['test/support/nodes-setup.ts'],
      env: { NODES: '2' },
    },
  }),
);
