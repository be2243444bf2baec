/** Where the quickstart listens. @default http://127.0.0.1:3000/mcp */
export const DOCS_URL = Symbol('DOCS_URL');

export const docsUrl = (): string => process.env.MCP_URL ?? 'http://127.0.0.1:3000/mcp';
