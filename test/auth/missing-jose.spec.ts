import { expect, it, vi } from 'vitest';
import { systemClock } from 'nestjs-mcp-streamable';
import { resolveAuthOptions } from '../../src/auth/auth.options.js';
import { JwtVerifier } from '../../src/auth/jwt-verifier.js';

const missing = vi.hoisted(() => Object.assign(new Error("Cannot find module 'jose'"), { code: 'MODULE_NOT_FOUND' }));

vi.mock('../../src/auth/jose-package.cjs', () => ({
  requireJose: () => {
    throw missing;
  },
}));

it('says what to install when JWTs are to be verified and jose is missing', () => {
  const options = resolveAuthOptions({ resource: 'https://mcp.test/mcp', authorizationServers: ['https://idp.test'] });
  const make = () => new JwtVerifier(options.jwt!, options, systemClock);
  expect(make).toThrow('which is not installed. Install it (npm install jose), or give your own "verifier".');
});
