import { describe, expect, it } from 'vitest';
import { routePattern } from './fastify-edge.js';

describe('a pattern', () => {
  it.each<[string, string[], string[]]>([
    ['/mcp', ['/mcp'], ['/mcp/', '/mcpx', '/x/mcp', '/MCP', '/m.p']],
    ['/api/v1.0/mcp', ['/api/v1.0/mcp'], ['/api/v1x0/mcp']],
    ['/:tenant/mcp', ['/acme/mcp', '/a-b/mcp'], ['/mcp', '/a/b/mcp']],
    ['/:tenant(^\\d+)/mcp', ['/7/mcp'], ['/7/8/mcp']],
    ['/:a-:b/mcp', ['/1-2/mcp'], ['/12/mcp']],
    ['/mcp/:part?', ['/mcp/', '/mcp/x'], ['/mcpx']],
    ['/mcp::run', ['/mcp:run'], ['/mcp::run', '/mcpx']],
    ['/mcp/*', ['/mcp/', '/mcp/a/b'], ['/mcp']],
  ])('of %s', (url, matching, others) => {
    for (const path of matching) expect(path).toMatch(routePattern(url, {}));
    for (const path of others) expect(path).not.toMatch(routePattern(url, {}));
  });

  it('goes by the options of the router, wherever they are', () => {
    expect('/MCP').toMatch(routePattern('/mcp', { caseSensitive: false }));
    expect('/mcp/').toMatch(routePattern('/mcp', { routerOptions: { ignoreTrailingSlash: true } }));
  });
});
