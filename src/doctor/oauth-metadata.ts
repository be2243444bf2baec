import { metadataUrls } from '../core/protocol/uris.js';
import { isObject } from '../core/protocol/json-rpc.js';
import { finding, type McpFinding } from './diagnosis.js';

/** An authorization server has so many milliseconds for all of its metadata URLs together. */
const LIMIT_MS = 3_000;

/**
 * Requests the metadata of authorization servers, without which clients cannot log in.
 *
 * @param issuers as the endpoint names them
 * @returns a finding for each that has none
 */
export async function issuerFindings(issuers: readonly string[], request: typeof fetch): Promise<McpFinding[]> {
  const found = await Promise.all(issuers.map((issuer) => issuerFinding(issuer, request)));
  return found.flat();
}

async function issuerFinding(issuer: string, request: typeof fetch): Promise<McpFinding[]> {
  const signal = AbortSignal.timeout(LIMIT_MS);
  const isUrl = URL.canParse(issuer);
  const faults = isUrl ? [] : ['it is not a URL'];
  for (const url of isUrl ? metadataUrls(issuer) : []) {
    try {
      const response = await request(url, { signal, headers: { accept: 'application/json' } });
      const document: unknown = response.ok ? await response.json() : undefined;
      if (isObject(document) && document['issuer'] === issuer) return [];
      faults.push(response.ok ? `${url} has another "issuer"` : `${url} answered ${response.status}`);
    } catch (error) {
      faults.push(`${url}: ${(error as Error).message}`);
    }
  }
  const advice =
    'Check "auth.authorizationServers": each must be spelled exactly as the "issuer" in its metadata, and be reachable by clients.';
  const problem = `names the authorization server ${issuer}, whose metadata was not found: ${faults.join('; ')}`;
  return [finding('oauth-metadata', undefined, problem, advice)];
}
