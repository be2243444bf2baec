import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { expect, it, vi } from 'vitest';
import { RESOURCE } from './protected-apps.js';
import { serverInfo, startFailure } from '../support/app.js';

const missing = vi.hoisted(() => Object.assign(new Error("Cannot find module 'jose'"), { code: 'MODULE_NOT_FOUND' }));

vi.mock('../../src/auth/jose-package.cjs', () => ({
  requireJose: () => {
    throw missing;
  },
}));

it('the option "auth" says what to install when JWTs are to be verified and jose is missing', async () => {
  const auth = { resource: RESOURCE, authorizationServers: ['https://idp.test'] };
  const { message } = await startFailure('fastify', () => ({
    imports: [McpStreamableModule.forRoot({ serverInfo, auth })],
  }));
  expect(message).toContain('which is not installed. Install it (npm install jose), or give your own "verifier".');
});
