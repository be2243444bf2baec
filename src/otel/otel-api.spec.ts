import { expect, it } from 'vitest';
import { loadApi, OtelPackageError } from './otel-api.js';

it('the entry "otel" says what to install when @opentelemetry/api is missing', () => {
  const missing = (): never => {
    throw Object.assign(new Error('Cannot find module'), { code: 'MODULE_NOT_FOUND' });
  };
  expect(() => loadApi(missing)).toThrow(OtelPackageError);
  expect(() => loadApi(missing)).toThrow('npm install @opentelemetry/api');
});
