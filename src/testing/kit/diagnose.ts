import type { INestApplication } from '@nestjs/common';
import {
  type McpDiagnosis,
  type McpDoctorRule,
  diagnoseEndpoint,
  diagnoseTools,
  finding,
  type McpFinding,
  worstFirst,
} from '../../doctor/diagnosis.js';
import { EndpointDoctor } from '../../doctor/endpoint-doctor.js';
import { findingLines } from '../../doctor/finding-lines.js';
import { issuerFindings } from '../../doctor/oauth-metadata.js';
import { parseAuthChallenge } from '../../client/auth-challenge.js';
import { isObject } from '../../core/protocol/json-rpc.js';
import { endpointAt, pathsOf } from './endpoints.js';
import { createAppFetch, createMcpTestClient } from './mcp-test-client.js';

/** Chooses what {@link diagnose} examines. @publicApi */
export interface McpDiagnoseOptions {
  /** The path of the endpoint. @default that of the app's only one */
  endpoint?: string;
  /**
   * Requests the metadata of the authorization servers that the endpoint names, such as the global `fetch`.
   *
   * @default none: they are not asked
   */
  fetch?: typeof fetch;
}

/**
 * Examines an endpoint for what clients and models have difficulties with: names, texts, hints, schemas and weight of its
 * tools, and the documents by which clients find the login. All tools are examined, also those that only some callers see; with the option
 * `server`, those that an anonymous client sees.
 *
 * ```ts
 * const { findings, tokens } = await diagnose(app);
 * ```
 *
 * @param app is initialized, if it is not
 * @publicApi
 */
export async function diagnose(
  app: INestApplication,
  { endpoint, fetch: request }: McpDiagnoseOptions = {},
): Promise<McpDiagnosis> {
  const appFetch = await createAppFetch(app);
  const host = endpointAt(app, endpoint);
  const path = endpoint ?? pathsOf(host)[0]!;
  const diagnosis =
    host.offer.serves === 'handlers'
      ? (host.find(EndpointDoctor)?.diagnosis() ?? diagnoseEndpoint(host))
      : diagnoseTools(await listedTools(app, path));
  const metadata = await metadataOf(appFetch, path);
  if (metadata === undefined) return diagnosis;
  const found = 'fault' in metadata ? [metadata.fault] : request ? await issuerFindings(metadata.issuers, request) : [];
  return { ...diagnosis, findings: worstFirst([...diagnosis.findings, ...found]) };
}

/**
 * Fails if {@link diagnose} finds something.
 *
 * ```ts
 * await expectHealthy(app, { except: ['no-title'] });
 * ```
 *
 * @throws Error (rejects) whose message has all findings, and what to do
 * @publicApi
 */
export async function expectHealthy(
  app: INestApplication,
  {
    except = [],
    ...options
  }: McpDiagnoseOptions & {
    /** Rules that are not applied. @default none */
    except?: readonly McpDoctorRule[];
  } = {},
): Promise<void> {
  const { findings } = await diagnose(app, options);
  const left = findings.filter(({ rule }) => !except.includes(rule));
  if (left.length === 0) return;
  const lines = findingLines(left).map((line) => `  - ${line}`);
  const count = `${left.length} ${left.length === 1 ? 'finding' : 'findings'}`;
  throw new Error(
    [
      `The doctor has ${count}:`,
      ...lines,
      '',
      'To leave out rules that do not matter here: expectHealthy(app, { except: […] }).',
    ].join('\n'),
  );
}

async function listedTools(app: INestApplication, endpoint: string): Promise<Parameters<typeof diagnoseTools>[0]> {
  const mcp = await createMcpTestClient(app, { endpoint });
  try {
    const tools = mcp.client.getServerCapabilities()?.tools ? await mcp.list.tools() : [];
    return tools.map((wire) => ({ wire: wire as never }));
  } finally {
    await mcp.close();
  }
}

/**
 * Follows the challenge of an endpoint to the document that names its authorization servers, as clients do.
 *
 * @returns `undefined` for an endpoint whose challenge names none
 */
async function metadataOf(
  request: Awaited<ReturnType<typeof createAppFetch>>,
  path: string,
): Promise<{ issuers: readonly string[] } | { fault: McpFinding } | undefined> {
  const { status, headers } = await request(path, { method: 'POST' });
  const url = status === 401 ? parseAuthChallenge(headers.get('www-authenticate'))?.resourceMetadata : undefined;
  if (url === undefined) return undefined;
  const response = await request(URL.canParse(url) ? new URL(url).pathname : '/');
  const document: unknown = response.ok ? await response.json().catch(() => undefined) : undefined;
  const issuers = isObject(document) ? document['authorization_servers'] : undefined;
  if (Array.isArray(issuers)) return { issuers: issuers.map(String) };
  const problem = `names ${url} as its metadata, which answers ${response.status} without authorization servers`;
  const advice = 'Serve the metadata of the protected resource (RFC 9728) there; the option "auth" does.';
  return { fault: finding('oauth-metadata', undefined, problem, advice) };
}
