import { Scope, type Provider } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { ONE_ADAPTER, serverInfo, startFailure } from '../support/app.js';

class Made {
  @Tool({ name: 'made' })
  run(): void {}
}

const FACTORIES: Record<string, Provider> = {
  'that needs the request': { provide: Made, useFactory: () => new Made(), inject: [REQUEST] },
  'that is request-scoped': { provide: Made, useFactory: () => new Made(), scope: Scope.REQUEST },
  'that is transient': { provide: Made, useFactory: () => new Made(), scope: Scope.TRANSIENT },
};

describe.each(ONE_ADAPTER)('handlers that would silently be missing stop the start, on %s', (adapter) => {
  it.each(Object.keys(FACTORIES))('those of a factory %s', async (name) => {
    const module = () => ({ imports: [McpStreamableModule.forRoot({ serverInfo })], providers: [FACTORIES[name]!] });
    const error = await startFailure(adapter, module);
    expect(error).toMatchObject({ name: 'McpHandlerDefinitionError', origin: 'Made (RootTestModule)' });
    expect(error.message).toMatch(/a factory creates it for each request.*useClass/);
  });
});
