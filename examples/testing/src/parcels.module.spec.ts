// #region setup
import type { INestApplication } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  createMcpTestClient,
  expectNothingLeft,
  McpTestAuth,
  mintTestToken,
  refusalOf,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, expect, it, vi } from 'vitest';
import { AccessTokens, CustomerGuard, ParcelsModule, Van } from './parcels.module.js';

let app: INestApplication;

async function start(
  override = (builder: ReturnType<typeof Test.createTestingModule>) => builder,
): Promise<void> {
  const fixture = await override(
    Test.createTestingModule({ imports: [ParcelsModule] }),
  ).compile();
  app = fixture.createNestApplication();
}

afterEach(async () => {
  await expectNothingLeft(app);
  await app.close();
});
// #endregion

// #region tool
it('weighs a parcel', async () => {
  await start();
  const mcp = await createMcpTestClient(app);
  const { text, structured, isError } = await mcp.callTool('weigh', { id: 'P-17' });
  expect(structured).toEqual({ grams: 400 });
  expect(text).toBe('{"grams":400}');
  expect(isError).toBe(false);
  await mcp.close();
});
// #endregion

// #region guard
it('destroys a parcel if the guard lets the caller in', async () => {
  await start((builder) =>
    builder.overrideGuard(CustomerGuard).useValue({ canActivate: () => true }),
  );
  const mcp = await createMcpTestClient(app);
  expect((await mcp.callTool('destroy', { id: 'P-17' })).text).toBe('P-17 is no more.');
  await mcp.close();
});

it('refuses a stranger, and does not list the tool for this caller', async () => {
  await start();
  const mcp = await createMcpTestClient(app);
  const refusal = await refusalOf(mcp.callTool('destroy', { id: 'P-17' }));
  expect(refusal).toMatchObject({ status: 401, message: 'Log in first.' });
  expect((await mcp.list.tools()).map(({ name }) => name)).not.toContain('destroy');
  await mcp.close();
});
// #endregion

// #region authentication
it('destroys a parcel for a customer whose token says so', async () => {
  await start((builder) =>
    builder.overrideProvider(AccessTokens).useValue(new McpTestAuth()),
  );
  const writer = mintTestToken({ sub: 'anna', scopes: ['parcels:write'] });
  const anna = await createMcpTestClient(app, { token: writer });
  expect((await anna.callTool('destroy', { id: 'P-17' })).isError).toBe(false);
  const bert = await createMcpTestClient(app, { token: mintTestToken({ sub: 'bert' }) });
  // A tool that a guard hides from a caller does not exist for this caller.
  await expect(bert.callTool('destroy', { id: 'P-17' })).rejects.toThrow(
    'Tool "destroy" not found.',
  );
  await anna.close();
  await bert.close();
});
// #endregion

// #region progress
it('reports the progress of a delivery', async () => {
  await start();
  const mcp = await createMcpTestClient(app);
  const { text, progress } = await mcp.callTool(
    'deliver',
    { id: 'P-17' },
    { onprogress: () => app.get(Van).arrive() },
  );
  expect(progress.map(({ message }) => message)).toEqual([
    'waits for the van',
    'is on its way',
  ]);
  expect(text).toBe('P-17 is delivered.');
  await mcp.close();
});
// #endregion

// #region elicitation
it.each(['legacy', 'modern'] as const)(
  'asks why a parcel is to be sent back (%s)',
  async (era) => {
    await start();
    const elicit = vi.fn(() => ({
      action: 'accept' as const,
      content: { reason: 'too small' },
    }));
    const mcp = await createMcpTestClient(app, { era, elicit });
    expect((await mcp.callTool('send_back', { id: 'P-17' })).text).toBe(
      'Sent back: too small.',
    );
    expect(elicit).toHaveBeenCalledWith(
      expect.objectContaining({ message: 'Why send P-17 back?' }),
    );
    await mcp.close();
  },
);
// #endregion

// #region resumption
it('delivers to a client whose connection broke meanwhile', async () => {
  await start();
  const mcp = await createMcpTestClient(app, { era: 'legacy' });
  const onprogress = vi.fn();
  const call = mcp.callTool('deliver', { id: 'P-17' }, { onprogress });
  await vi.waitFor(() => expect(onprogress).toHaveBeenCalled());
  mcp.dropStreams();
  app.get(Van).arrive();
  mcp.reconnect();
  expect((await call).progress).toHaveLength(2);
  await mcp.close();
});
// #endregion
