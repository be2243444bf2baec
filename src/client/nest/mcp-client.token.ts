import { Inject } from '@nestjs/common';

/**
 * The token of a client of `McpClientModule`, for example to replace it in a test.
 *
 * @param name the key of the client in the option `clients`
 * @publicApi
 */
export function getMcpClientToken(name: string): string {
  return `McpClient:${name}`;
}

/**
 * Injects the `McpClient` of that name.
 *
 * ```ts
 * constructor(@InjectMcpClient('orders') private readonly orders: McpClient) {}
 * ```
 *
 * @param name the key of the client in the option `clients`
 * @publicApi
 */
export function InjectMcpClient(name: string): ReturnType<typeof Inject> {
  return Inject(getMcpClientToken(name));
}
