import type { Client, withOAuth } from '@modelcontextprotocol/client';
import { mcpClientMessages } from './mcp-client.messages.js';

/** The official client, as far as it is used. */
export interface ClientPackage {
  readonly Client: typeof Client;
  readonly withOAuth: typeof withOAuth;
}

/** The official client is not installed. @publicApi */
export class McpClientPackageError extends Error {
  override readonly name = 'McpClientPackageError';
  readonly code = 'CLIENT_PACKAGE_MISSING';
}

/**
 * Loads the official client. Not before it is needed: the transport alone serves other clients too.
 *
 * @throws (rejects) McpClientPackageError when it is not installed
 */
export async function loadClientPackage(
  load: () => Promise<ClientPackage> = () => import('@modelcontextprotocol/client'),
): Promise<ClientPackage> {
  try {
    return await load();
  } catch (cause) {
    const { code } = cause as { code?: unknown };
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause;
    throw new McpClientPackageError(mcpClientMessages.packageMissing(), { cause });
  }
}
