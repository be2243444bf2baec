/** What users read of the Nest part. */
export const mcpClientMessages = {
  packageMissing: () =>
    'McpClientModule needs the official client, which is not installed: npm install @modelcontextprotocol/client',
  noNames: () =>
    'The option "names" must list the clients that the factory configures, as in names: ["orders"]: Nest has to know what can be injected before the factory runs.',
  noClients: () =>
    'The option "clients" must be an object of clients, each with a "url", as in { orders: { url: "https://orders.example.com/mcp" } }.',
  notConfigured: (name: string, known: readonly string[]) =>
    `The factory configured no client "${name}". It configured ${known.length === 0 ? 'none' : known.map((each) => `"${each}"`).join(', ')}.`,
  closed: (name: string) => `The MCP client "${name}" is closed: the application is shutting down.`,
};
