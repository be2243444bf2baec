import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { expect, it } from 'vitest';
import { serverInfo, startFailure } from '../support/app.js';

// What else may be wrong with it: src/auth/auth.options.spec.ts.
it('the option "auth" stops the start when it cannot work', async () => {
  const auth = { resource: '/mcp', authorizationServers: ['https://idp.test'] };
  const failure = await startFailure('fastify', () => ({
    imports: [McpStreamableModule.forRoot({ serverInfo, auth })],
  }));
  expect(failure.message).toBe('The option "auth.resource" cannot be "/mcp": it is not an absolute URL.');
});
