/** How to connect to the server at `url`: what the quickstart prints when it has started. */
export function connectHelp(url: string): string {
  const asJson = (value: object): string => JSON.stringify(value, null, 2);
  return `
The documents are served at ${url}

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

4. With Cursor (.cursor/mcp.json)

${asJson({ mcpServers: { docs: { url } } })}

5. With VS Code (.vscode/mcp.json)

${asJson({ servers: { docs: { type: 'http', url } } })}

6. With Claude Desktop (claude_desktop_config.json), through mcp-remote

${asJson({ mcpServers: { docs: { command: 'npx', args: ['mcp-remote', url] } } })}

7. With the MCP Inspector

npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list

Ctrl-C ends the server.
`;
}

/** A session from its beginning to its end, for a POSIX shell. */
export function curlLines(url: string): string {
  const post = `curl -sSN '${url}' -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'`;
  const body = (message: object): string => `-d '${JSON.stringify({ jsonrpc: '2.0', ...message })}'`;
  const initialize = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'curl', version: '1.0.0' },
  };
  const call = { name: 'search_docs', arguments: { query: 'session', limit: 50 }, _meta: { progressToken: 1 } };
  return [
    `SESSION=$(${post} -D - -o /dev/null \\`,
    `  ${body({ id: 1, method: 'initialize', params: initialize })} \\`,
    `  | tr -d '\\r' | sed -n 's/^[Mm]cp-[Ss]ession-[Ii]d: //p')`,
    `${post} -H "Mcp-Session-Id: $SESSION" \\`,
    `  ${body({ method: 'notifications/initialized' })}`,
    `${post} -H "Mcp-Session-Id: $SESSION" \\`,
    `  ${body({ id: 2, method: 'tools/call', params: call })}`,
    `curl -sS -X DELETE '${url}' -H "Mcp-Session-Id: $SESSION"`,
  ].join('\n');
}
