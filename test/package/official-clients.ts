import { deepEqual } from 'node:assert/strict';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

/** What the newest client speaks, by the era it is told to speak. */
export const MODES = [
  { mode: 'legacy', revision: '2025-11-25' },
  { mode: { pin: '2026-07-28' }, revision: '2026-07-28' },
] as const;

export type Mode = (typeof MODES)[number]['mode'];

const info = { name: 'check-compat', version: '1.0.0' };

/** `@modelcontextprotocol/client`, which speaks both eras. @returns the revision that it was served in */
export async function withClient(
  url: URL,
  mode: Mode,
  headers: Record<string, string>,
  use: (client: Client) => Promise<void>,
): Promise<string | undefined> {
  const client = new Client(info, { versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
  await client.connect(transport);
  await use(client);
  const revision = client.getNegotiatedProtocolVersion();
  await transport.terminateSession();
  await client.close();
  return revision;
}

/** The client of `@modelcontextprotocol/sdk`. @returns the revision that it was served in */
export async function withClientV1(
  url: URL,
  headers: Record<string, string>,
  use: (client: ClientV1) => Promise<void>,
): Promise<string | undefined> {
  const client = new ClientV1(info);
  const transport = new TransportV1(url, { requestInit: { headers } });
  await client.connect(transport);
  await use(client);
  const revision = transport.protocolVersion;
  await transport.terminateSession();
  await client.close();
  return revision;
}

/** Collects the progress of a call. */
export class Progress {
  readonly #seen: number[] = [];
  readonly onprogress = ({ progress }: { progress: number }): void => void this.#seen.push(progress);

  assert(...expected: number[]): void {
    deepEqual(this.#seen, expected);
  }
}
