// #region test
import { Test } from '@nestjs/testing';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { createMcpTestClient } from 'nestjs-mcp-streamable/testing';
import { expect, it } from 'vitest';
import { CachedMs, ResultCache } from './plugin-cache.js';

class Reports {
  made = 0;

  @Tool({ name: 'report' })
  @CachedMs(60_000)
  report(): string {
    return `report ${++this.made}`;
  }
}

const AppModule = McpStreamableModule.forRoot({
  serverInfo: { name: 'reports', version: '1.0.0' },
  principal: () => 'ann',
});

it('a caller gets the report that was made before', async () => {
  const module = { imports: [AppModule], providers: [Reports, ResultCache] };
  const testing = await Test.createTestingModule(module).compile();
  const app = testing.createNestApplication();
  const mcp = await createMcpTestClient(app);
  expect((await mcp.callTool('report')).text).toBe('report 1');
  expect((await mcp.callTool('report')).text).toBe('report 1');
  await mcp.close();
  await app.close();
});
// #endregion
