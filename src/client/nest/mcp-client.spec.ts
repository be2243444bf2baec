import { expect, it } from 'vitest';
import { loadClientPackage } from './mcp-client.js';

it('the client module says what to install when the official client is missing', async () => {
  const missing = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
  const error = await loadClientPackage(() => Promise.reject(missing)).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({ name: 'McpClientPackageError', code: 'CLIENT_PACKAGE_MISSING', cause: missing });
  expect((error as Error).message).toContain('npm install @modelcontextprotocol/client');
  const other = new Error('broken');
  await expect(loadClientPackage(() => Promise.reject(other))).rejects.toBe(other);
});
