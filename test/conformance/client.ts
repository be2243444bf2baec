// The client that the official conformance suite drives: `node build/conformance/client.js URL`, with the scenario in
// MCP_CONFORMANCE_SCENARIO. It ends with 0 when the scenario went as a client wants it; the suite judges what was sent.
import {
  Client,
  ClientCredentialsProvider,
  type ClientOptions,
  CrossAppAccessProvider,
  type DiscoverResult,
  PrivateKeyJwtProvider,
  requestJwtAuthorizationGrant,
} from '@modelcontextprotocol/client';
import { StreamableClientTransport, type StreamableClientTransportOptions } from 'nestjs-mcp-streamable/client';
import { AgreeingUser, oauth } from './client.oauth.js';

const { MCP_CONFORMANCE_SCENARIO: scenario = '', MCP_CONFORMANCE_PROTOCOL_VERSION: version } = process.env;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}') as Record<string, string> & {
  toolCalls?: { name: string; arguments: Record<string, unknown> }[];
};
const INFO = { name: 'nestjs-mcp-streamable', version: '1.0.0' };
const modern = version === '2026-07-28';

/** Some servers of the suite answer neither `server/discover` nor `initialize`: what they would say is known. */
const DISCOVERED = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: { listChanged: true }, resources: {}, prompts: {} },
  ttlMs: 0,
  cacheScope: 'private',
} as unknown as DiscoverResult;

interface Setup {
  client?: ClientOptions;
  transport?: StreamableClientTransportOptions;
  /** Asks for nothing when it connects. */
  undiscovered?: boolean;
  /** Before the client connects. */
  prepare?: (client: Client) => void;
}

/** Connects, does its part, and closes. */
async function visit(url: string, part: (client: Client) => Promise<unknown>, setup: Setup = {}): Promise<void> {
  const mode = modern || setup.undiscovered ? 'auto' : 'legacy';
  const client = new Client(INFO, { versionNegotiation: { mode }, ...setup.client });
  setup.prepare?.(client);
  const transport = new StreamableClientTransport(url, setup.transport);
  await client.connect(transport, setup.undiscovered ? { prior: { kind: 'modern', discover: DISCOVERED } } : {});
  try {
    await part(client);
  } finally {
    await client.close();
  }
}

const listTools = (client: Client): Promise<unknown> => client.listTools();

async function callAll(client: Client, calls: readonly { name: string; arguments: Record<string, unknown> }[]) {
  await client.listTools();
  for (const call of calls) await client.callTool(call);
}

const authorized = (url: string, provider: Parameters<typeof oauth>[1]): Promise<void> =>
  visit(url, (client) => callAll(client, [{ name: 'test-tool', arguments: {} }]), {
    client: { versionNegotiation: { mode: 'auto' } },
    transport: oauth(url, provider),
  });

const acquainted = (url: string, provider: Parameters<typeof oauth>[1]): Promise<void> =>
  visit(url, listTools, { transport: oauth(url, provider) });

const SCENARIOS: Readonly<Record<string, (url: string) => Promise<void>>> = {
  initialize: (url) => visit(url, listTools),
  tools_call: (url) => visit(url, (client) => callAll(client, [{ name: 'add_numbers', arguments: { a: 5, b: 3 } }])),
  'sse-retry': (url) => visit(url, (client) => callAll(client, [{ name: 'test_reconnection', arguments: {} }])),
  'json-schema-ref-no-deref': (url) => visit(url, listTools),
  'json-schema-2020-12-preservation': (url) =>
    visit(url, async (client) => {
      const { tools } = await client.listTools();
      const { inputSchema } = tools.find(({ name }) => name === 'json_schema_2020_12_tool')!;
      await client.callTool({ name: 'json_schema_echo', arguments: { schema: inputSchema } });
    }),
  'request-metadata': (url) => {
    const capabilities = { roots: { listChanged: true }, sampling: {}, elicitation: {} };
    return visit(url, async () => {}, { client: { capabilities, versionNegotiation: { mode: 'auto' } } });
  },
  'elicitation-sep1034-client-defaults': (url) =>
    visit(url, (client) => callAll(client, [{ name: 'test_client_elicitation_defaults', arguments: {} }]), {
      client: {
        capabilities: { elicitation: { form: { applyDefaults: true } } },
        versionNegotiation: { mode: 'legacy' },
      },
      prepare: (client) => client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: {} })),
    }),
  'http-standard-headers': (url) =>
    visit(
      url,
      async (client) => {
        for (const { name } of (await client.listTools()).tools) await client.callTool({ name, arguments: {} });
        for (const { uri } of (await client.listResources()).resources) await client.readResource({ uri });
        for (const { name } of (await client.listPrompts()).prompts) await client.getPrompt({ name, arguments: {} });
      },
      { undiscovered: true },
    ),
  'http-custom-headers': (url) =>
    visit(url, (client) => callAll(client, context.toolCalls ?? []), { undiscovered: true }),
  'http-invalid-tool-headers': (url) =>
    visit(
      url,
      async (client) => {
        for (const { name } of (await client.listTools()).tools) {
          await client.callTool({ name, arguments: { region: 'us-west1' } });
        }
      },
      { undiscovered: true },
    ),
  'sep-2322-client-request-state': (url) =>
    visit(
      url,
      async (client) => {
        for (const name of ['test_mrtr_echo_state', 'test_mrtr_no_state', 'test_mrtr_unrelated'])
          await client.callTool({ name, arguments: {} });
        // A result without `resultType` is the server's mistake: an error, and not a question.
        await client.callTool({ name: 'test_mrtr_no_result_type', arguments: {} }).catch(() => {});
      },
      {
        undiscovered: true,
        client: { capabilities: { elicitation: {} }, versionNegotiation: { mode: 'auto' } },
        prepare: (client) =>
          client.setRequestHandler('elicitation/create', () => ({ action: 'accept', content: { confirmed: true } })),
      },
    ),
  'auth/pre-registration': (url) => {
    const { client_id, client_secret } = context as { client_id: string; client_secret: string };
    return authorized(url, new AgreeingUser({ client_id, client_secret }));
  },
  'auth/client-credentials-jwt': (url) =>
    acquainted(
      url,
      new PrivateKeyJwtProvider({
        clientId: context.client_id!,
        privateKey: context.private_key_pem!,
        algorithm: context.signing_algorithm ?? 'ES256',
      }),
    ),
  'auth/client-credentials-basic': (url) =>
    acquainted(
      url,
      new ClientCredentialsProvider({ clientId: context.client_id!, clientSecret: context.client_secret! }),
    ),
  'auth/enterprise-managed-authorization': (url) =>
    acquainted(
      url,
      new CrossAppAccessProvider({
        clientId: context.client_id!,
        clientSecret: context.client_secret!,
        assertion: async ({ authorizationServerUrl, resourceUrl, fetchFn }) => {
          const { jwtAuthGrant } = await requestJwtAuthorizationGrant({
            tokenEndpoint: context.idp_token_endpoint!,
            audience: authorizationServerUrl,
            resource: resourceUrl,
            idToken: context.idp_id_token!,
            clientId: context.idp_client_id!,
            fetchFn,
          });
          return jwtAuthGrant;
        },
      }),
    ),
};

const [url] = process.argv.slice(2);
const run =
  SCENARIOS[scenario] ??
  (scenario.startsWith('auth/') ? (at: string) => authorized(at, new AgreeingUser()) : undefined);
if (url === undefined || !run) {
  console.error(`Usage: MCP_CONFORMANCE_SCENARIO=<scenario> client <url>. Scenario "${scenario}" is not known here.`);
  process.exitCode = 2;
} else {
  try {
    await run(url);
  } catch (error) {
    console.error(error);
    process.exitCode = 1;
  }
}
