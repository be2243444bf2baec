/**
 * How to connect to the server at `url`: what the quickstart prints when it has
 * started.
 */
export function connectHelp(url: string): string {
  return `
The documents are served at ${url}
Watch and try its tools at ${new URL('mcp-live', url).href}

1. With curl

${curlLines(url)}

2. With the official client (npm install @modelcontextprotocol/client)

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const client = new Client({ name: 'me', version: '1.0.0' });
await client.connect(new StreamableHTTPClientTransport(new URL('${url}')));
console.log(await client.callTool({ name: 'search_docs', arguments: { query: 'session' } }));
await client.close();

3. With Claude Code

claude mcp add --transport http docs ${url}

4. With Cursor: .cursor/mcp.json

${asJson({ mcpServers: { docs: { url } } })}

5. With VS Code: .vscode/mcp.json

${asJson({ servers: { docs: { type: 'http', url } } })}

6. With Claude Desktop, through mcp-remote: claude_desktop_config.json

${asJson({ mcpServers: { docs: { command: 'npx', args: ['mcp-remote', url] } } })}

7. With the MCP Inspector

npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list

Each call is printed below when it ends. Ctrl-C stops the server.
`;
}

/** A session from its beginning to its end, for a POSIX shell. */
export function curlLines(url: string): string {
  const initialize = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'curl', version: '1.0.0' },
  };
  const search = {
    name: 'search_docs',
    arguments: { query: 'session' },
    _meta: { progressToken: 1 },
  };
  const body = (message: object): string =>
    `-d '${JSON.stringify({ jsonrpc: '2.0', ...message })}'`;
  return [
    `mcp() { curl -sSN '${url}' -H "Mcp-Session-Id: $SESSION" \\`,
    `  -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' "$@"; }`,
    `SESSION=`,
    `SESSION=$(mcp -D - -o /dev/null ${body({ id: 1, method: 'initialize', params: initialize })} \\`,
    `  | tr -d '\\r' | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p')`,
    `mcp ${body({ method: 'notifications/initialized' })}`,
    `mcp ${body({ id: 2, method: 'tools/call', params: search })}`,
    `mcp -X DELETE`,
  ].join('\n');
}

function asJson(value: object): string {
  return JSON.stringify(value, null, 2);
}
