import { Injectable } from '@nestjs/common';
import {
  type McpCaller,
  McpCatalogue,
  type McpCatalogueTool,
  McpStreamableModule,
  McpToolCaller,
} from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { serverInfo, TestApp } from '../support/app.js';
import { memoryAtRest } from '../support/memory.js';

/** The figures in the notes are those of `PRINCIPALS=10000`; fewer show the same in less time. */
const PRINCIPALS = Number(process.env['PRINCIPALS'] ?? 50);
const TOOLS = 100;

let describeFor: (principal: string | undefined, tool: number) => string;
let more: Partial<McpCatalogueTool>;

@McpCatalogue({ maxPrincipals: 100_000 })
@Injectable()
class Plugins {
  list({ principal }: McpCaller): McpCatalogueTool[] {
    return Array.from({ length: TOOLS }, (_, n) => ({
      name: `tool_${n}`,
      description: describeFor(principal, n),
      inputSchema: { type: 'object', properties: { id: { type: 'string' }, count: { type: 'integer', minimum: n } } },
      ...more,
    }));
  }
  call(name: string): string {
    return name;
  }
}

describe('catalogues of many principals', () => {
  let app: TestApp;
  beforeEach(() => {
    more = {};
  });
  afterEach(() => app.close());

  const listAll = async (): Promise<number> => {
    const imports = [McpStreamableModule.forRoot({ serverInfo })];
    app = await TestApp.of('fastify', { imports, providers: [Plugins] });
    const caller = app.app.get(McpToolCaller);
    await caller.listTools({ principal: 'first' });
    const before = await memoryAtRest();
    for (let n = 0; n < PRINCIPALS; n++) await caller.listTools({ principal: `p${n}` });
    const bytes = (await memoryAtRest()) - before;
    const perTool = bytes / PRINCIPALS / TOOLS;
    if (process.env['PRINCIPALS']) {
      process.stdout.write(
        `${PRINCIPALS} principals with ${TOOLS} tools: ${Math.round(bytes / 1e6)} MB, ${Math.round(perTool)} bytes per tool\n`,
      );
    }
    return perTool;
  };

  it('catalogues of many principals share tools that are equal', async () => {
    describeFor = () => 'Does something useful for its caller';
    // Measured 48 bytes for each.
    expect(await listAll()).toBeLessThan(2_000);
  });

  it('catalogues of many principals hold tools that differ in a few kilobytes', async () => {
    describeFor = (principal) => `Does something useful for ${principal}`;
    // Measured 2,062 bytes for each.
    expect(await listAll()).toBeLessThan(12_000);
  });

  it('catalogues of many principals hold tools with limits and scopes in a few kilobytes', async () => {
    describeFor = (principal) => `Does something useful for ${principal}`;
    more = { timeoutMs: 1_000, maxConcurrent: { max: 2, per: 'principal' }, scopes: ['orders:write'] };
    // Measured 930 bytes more for each.
    expect(await listAll()).toBeLessThan(12_000);
  });
});
