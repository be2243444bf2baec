import { expect, it, onTestFinished, vi } from 'vitest';
import { gate } from '../../test/support/app.js';
import { AuthorizationServer } from '../../test/support/authorization-server.js';
import { ManualClock } from '../testing/index.js';
import { resolveAuthOptions } from './auth.options.js';
import { JwtVerifier } from './jwt-verifier.js';

const RESOURCE = 'https://mcp.test/mcp';

it('A16: signatures of tokens that come while 1,000 wait are refused with 503', async () => {
  const verify = vi.spyOn(crypto.subtle, 'verify');
  onTestFinished(() => verify.mockRestore());
  const idp = await AuthorizationServer.start();
  onTestFinished(() => idp.close());
  const options = resolveAuthOptions({ resource: RESOURCE, authorizationServers: [idp.issuer] });
  const verifier = new JwtVerifier(options.jwt!, options, new ManualClock());
  const token = await idp.token({ aud: RESOURCE });
  await verifier.verifyAccessToken(token);
  const held = gate();
  verify.mockImplementation(() => held.promise.then(() => true));
  const all = Array.from({ length: 1_051 }, () => verifier.verifyAccessToken(token));
  const refused = { code: 'UNAVAILABLE', headers: { 'Retry-After': '1' } };
  await expect(Promise.race(all)).rejects.toMatchObject(refused);
  held.open();
  const outcomes = await Promise.allSettled(all);
  expect(outcomes.filter(({ status }) => status === 'rejected')).toHaveLength(1);
});
