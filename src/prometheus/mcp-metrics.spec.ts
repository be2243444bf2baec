import { expect, it } from 'vitest';
import { loadPromClient, PrometheusPackageError } from './mcp-metrics.js';

it('the entry "prometheus" says what to install when prom-client is missing', () => {
  const missing = (): never => {
    throw Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' });
  };
  expect(() => loadPromClient(missing)).toThrow(PrometheusPackageError);
  expect(() => loadPromClient(missing)).toThrow('npm install prom-client');
});
