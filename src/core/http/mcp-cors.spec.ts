import { describe, expect, it } from 'vitest';
import { McpOptionError } from '../common/options.js';
import { mcpCors } from './mcp-cors.js';

describe('mcpCors()', () => {
  it('mcpCors() keeps all methods and headers of the other routes of the app', () => {
    expect(mcpCors().methods).toEqual(['GET', 'HEAD', 'PUT', 'PATCH', 'POST', 'DELETE']);
    expect(mcpCors()).not.toHaveProperty('allowedHeaders');
  });

  it('mcpCors() adds the headers of both eras to a list of headers', () => {
    expect(mcpCors({ headers: [] }).allowedHeaders).toEqual([
      'Content-Type',
      'Authorization',
      'MCP-Protocol-Version',
      'Mcp-Session-Id',
      'Last-Event-ID',
      'Mcp-Method',
      'Mcp-Name',
    ]);
    expect(mcpCors({ headers: ['Mcp-Param-Region'] }).allowedHeaders).toContain('Mcp-Param-Region');
  });

  it.each([['Mcp-Param-*'], ['*'], ['X Tenant'], [''], [undefined], [7]])(
    'mcpCors() refuses a header named %j',
    (name) => {
      expect(() => mcpCors({ headers: ['X-Tenant', name as string] })).toThrow(McpOptionError);
    },
  );

  it.each(['X-Tenant', null, {}])('mcpCors() refuses %j for a list', (headers) => {
    expect(() => mcpCors({ headers: headers as never })).toThrow(/"headers" of mcpCors\(\) must be an array/);
  });
});
