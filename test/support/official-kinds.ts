import { Client as ClientV2, StreamableHTTPClientTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { McpEra } from 'nestjs-mcp-streamable';
import type { TestApp } from './app.js';
import { MODERN } from './modern-client.js';
import { loneFetch } from './ways.js';

const INFO = { name: 'official', version: '1.0.0' };
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const CAPABILITIES = { elicitation: { form: {} }, sampling: {}, roots: {} };

interface CallOptions {
  signal?: AbortSignal;
  onprogress?: (progress: { progress: number; total?: number; message?: string }) => void;
}

/** How a client answers what it is asked. */
export interface Answers {
  elicit?: (params: { message: string }) => object;
  sample?: (params: unknown) => object;
  roots?: () => object;
}

/** An official client of either generation and of either era: what all of them can do, under one name. */
export interface Official {
  readonly era: McpEra;
  /** Undefined in the era without sessions. */
  readonly sessionId: string | undefined;
  /** Data of the log messages that came; `level` of `call` asks for them. */
  readonly logs: unknown[];
  /** What was told to have changed: `tools`, or a URI. */
  readonly changes: string[];
  /** The client itself. */
  readonly client: ClientV2;
  call(name: string, args?: object, options?: CallOptions): Promise<OfficialResult>;
  /** Asks for log messages from this level up, for all calls. */
  wantLogs(level: string): Promise<void>;
  /** Wants to hear of changes of the tool list, and of one resource. @returns what the server promised */
  watch(uri: string): Promise<void>;
  close(): Promise<void>;
}

interface OfficialResult {
  content: { type: string; text: string }[];
  structuredContent?: unknown;
  isError?: boolean;
}

interface OfficialKind {
  readonly name: string;
  /** The era in which it speaks to an endpoint that serves both. */
  readonly era: McpEra;
  connect(app: TestApp, headers?: Record<string, string>, answers?: Answers): Promise<Official>;
}

function generation2(name: string, era: McpEra, mode: 'auto' | 'legacy' | { pin: string }): OfficialKind {
  return {
    name: `@modelcontextprotocol/client 2.4, ${name}`,
    era,
    async connect(app, headers = {}, answers = {}) {
      const client = new ClientV2(INFO, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
      const { elicit, sample, roots } = answers;
      if (elicit) client.setRequestHandler('elicitation/create', ({ params }) => elicit(params) as never);
      if (sample) client.setRequestHandler('sampling/createMessage', ({ params }) => sample(params) as never);
      if (roots) client.setRequestHandler('roots/list', () => roots() as never);
      const logs: unknown[] = [];
      const changes: string[] = [];
      client.setNotificationHandler('notifications/message', ({ params }) => void logs.push(params.data));
      client.setNotificationHandler('notifications/tools/list_changed', () => void changes.push('tools'));
      client.setNotificationHandler('notifications/resources/updated', ({ params }) => void changes.push(params.uri));
      const options = { requestInit: { headers }, fetch: loneFetch };
      const transport = new TransportV2(new URL(app.url), options);
      await client.connect(transport);
      let level: string | undefined;
      return {
        era: client.getProtocolEra() as McpEra,
        logs,
        changes,
        client,
        get sessionId() {
          return transport.sessionId;
        },
        call: (tool, args = {}, more = {}) => {
          const meta = level !== undefined && era === 'modern' ? { _meta: { [LOG_LEVEL]: level } } : {};
          const params = { name: tool, arguments: { ...args }, ...meta };
          return client.callTool(params, more) as Promise<OfficialResult>;
        },
        wantLogs: async (wanted) => {
          level = wanted;
          if (era === 'legacy') await client.setLoggingLevel(wanted as never);
        },
        watch: async (uri) => {
          if (era === 'legacy') await client.subscribeResource({ uri });
          else await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
        },
        close: () => client.close(),
      };
    },
  };
}

const generation1: OfficialKind = {
  name: '@modelcontextprotocol/sdk 1.32',
  era: 'legacy',
  async connect(app, headers = {}, { elicit } = {}) {
    const client = new ClientV1(INFO, { capabilities: { elicitation: {}, sampling: {}, roots: {} } });
    if (elicit) client.setRequestHandler(ElicitRequestSchema, ({ params }) => elicit(params) as never);
    const logs: unknown[] = [];
    const changes: string[] = [];
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logs.push(params.data));
    client.setNotificationHandler(ToolListChangedNotificationSchema, () => void changes.push('tools'));
    client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void changes.push(params.uri));
    const options = { requestInit: { headers }, fetch: loneFetch };
    const transport = new TransportV1(new URL(app.url), options);
    await client.connect(transport);
    return {
      era: 'legacy',
      logs,
      changes,
      client: client as unknown as ClientV2,
      get sessionId() {
        return transport.sessionId;
      },
      call: (tool, args = {}, more = {}) => {
        const params = { name: tool, arguments: { ...args } };
        return client.callTool(params, undefined, more) as Promise<OfficialResult>;
      },
      wantLogs: async (level) => void (await client.setLoggingLevel(level as never)),
      watch: async (uri) => void (await client.subscribeResource({ uri })),
      close: () => client.close(),
    };
  },
};

/** The newest client, pinned to an era each. */
export const PINNED: readonly OfficialKind[] = [
  generation2('legacy', 'legacy', 'legacy'),
  generation2(`pinned to ${MODERN}`, 'modern', { pin: MODERN }),
];

export const OFFICIAL_KINDS: readonly OfficialKind[] = [...PINNED, generation2('auto', 'modern', 'auto'), generation1];

export function textOf({ content }: OfficialResult): string {
  return content[0]!.text;
}
