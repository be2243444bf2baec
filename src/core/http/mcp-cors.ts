import { McpOptionError } from '../common/options.js';

/** @internal */
export interface McpCorsOptions {
  /**
   * Additional headers that pages may send; with this option, no others are allowed: list those of your other routes,
   * such as `X-Api-Key`, and those of parameters, such as `Mcp-Param-Region`. With credentials there is no wildcard, so
   * list each of them.
   *
   * @default any header that a page asks for, as CORS of Express and Fastify does by default
   */
  readonly headers?: readonly string[];
}

/** Both adapters take these options in `app.enableCors()`. @publicApi */
export interface McpCors {
  methods: string[];
  allowedHeaders?: string[];
  exposedHeaders: string[];
}

/** Clients of both eras send these headers; `Accept` needs no permission. */
const REQUEST_HEADERS = [
  'Content-Type',
  'Authorization',
  'MCP-Protocol-Version',
  'Mcp-Session-Id',
  'Last-Event-ID',
  'Mcp-Method',
  'Mcp-Name',
];

const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;

/**
 * Returns the part of the app's CORS that browsers need for clients of both eras. Without it a page cannot read
 * `Mcp-Session-Id`, and on Fastify may not send DELETE. CORS applies to the whole app, so no method is removed: the
 * methods are those of Express' default.
 *
 * ```ts
 * app.enableCors({ origin: ['https://app.example.com'], credentials: true, ...mcpCors() });
 * ```
 *
 * The origins belong into the option `allowedOrigins` too.
 *
 * @throws McpOptionError for a header that is not the full name of one
 * @see https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#session-management
 * @publicApi
 */
export function mcpCors({ headers }: McpCorsOptions = {}): McpCors {
  const cors: McpCors = {
    methods: ['GET', 'HEAD', 'PUT', 'PATCH', 'POST', 'DELETE'],
    exposedHeaders: ['Mcp-Session-Id', 'WWW-Authenticate', 'Retry-After'],
  };
  if (headers === undefined) return cors;
  const list: unknown = headers;
  if (!Array.isArray(list) || !list.every(isHeaderName)) {
    const text = `The option "headers" of mcpCors() must be an array of full header names, such as "Mcp-Param-Region"; got ${JSON.stringify(list)}.`;
    throw new McpOptionError('headers', text);
  }
  return { ...cors, allowedHeaders: [...REQUEST_HEADERS, ...headers] };
}

/**
 * Returns whether a value is the name of a header. The grammar allows `*`, and browsers treat it as a name when
 * credentials are sent.
 */
function isHeaderName(name: unknown): boolean {
  return typeof name === 'string' && HEADER_NAME.test(name) && !name.includes('*');
}
