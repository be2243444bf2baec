import { expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import { VerifiedTokens } from './verified-tokens.js';

it('tokens that are remembered are not more than 10,000', async () => {
  const verifyAccessToken = (token: string) => Promise.resolve({ token, clientId: 'client', scopes: [] });
  const tokens = new VerifiedTokens(() => ({ verifyAccessToken }), 60_000, new ManualClock());
  for (let n = 0; n < 10_100; n++) await tokens.verifyAccessToken(`t${n}`);
  expect(tokens.size).toBe(10_000);
});
