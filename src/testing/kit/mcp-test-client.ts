import type * as Sdk from '@modelcontextprotocol/client';
import type { INestApplication } from '@nestjs/common';
import type { McpAnswer, McpLogLevel, McpQuestion } from '../../index.js';
import { POLLED_META_KEY, McpTaskTransport } from '../../client/task-transport.js';
import type { McpClock } from '../../core/common/clock.js';
import { McpEndpoint } from '../../core/eras/mcp-endpoint.js';
import { type McpEra, LOG_LEVEL_META_KEY } from '../../core/protocol/era.js';
import { MODERN_REVISIONS } from '../../core/protocol/revisions.js';
import { McpAppAgent, type McpAppFetch, fetchOver } from './app-agent.js';
import { endpointsIn, pathOf } from './endpoints.js';
import { RefusalWatch } from './refusals.js';
import { sendRaw, type McpRawAnswer, type McpRawMessage } from './raw-message.js';
import { TaskReports } from './task-reports.js';

/** Chooses the endpoint, the era and the caller of a test client. @publicApi */
export interface McpTestClientOptions {
  /** The path of the endpoint. @default that of the app's only one */
  endpoint?: string;
  /** `legacy`: sessions, 2025-11-25; `modern`: without, 2026-07-28. @default the newest that the endpoint serves */
  era?: McpEra;
  /** Each request has these headers. */
  headers?: Readonly<Record<string, string>>;
  /** Each request has this token as `Authorization: Bearer`. */
  token?: string;
  /** Answers elicitations. The client has the capability if this is given. */
  elicit?: (params: Sdk.ElicitRequest['params']) => Sdk.ElicitResult | Promise<Sdk.ElicitResult>;
  /** Answers sampling requests. The client has the capability if this is given. */
  sample?: (params: SamplingQuestion['params']) => SamplingAnswer | Promise<SamplingAnswer>;
  /** The answer to `roots/list`. The client has the capability if this is given. */
  roots?: McpAnswer<{ method: 'roots/list' }>['roots'];
  /** The client declares these beside the capabilities that follow from the answers above. */
  capabilities?: Sdk.ClientCapabilities;
  /** Asks for log messages from this level up. @default none in the modern era, else what the server sends */
  logLevel?: McpLogLevel;
  /**
   * Follows tasks: `callTool()` returns the result of the task, and `progress` has what the handler reported. It polls every
   * few milliseconds, without regard to the interval of the server. `false`: the client does not support tasks, so that a tool
   * with `task: 'optional'` is called like any other.
   *
   * @default true
   */
  tasks?: boolean;
  /** @default nestjs-mcp-streamable-testing */
  clientInfo?: { name: string; version: string };
}

/** The result of a tool call, with the notifications that the client received meanwhile. @publicApi */
export interface McpToolCallResult<Structured = unknown> {
  /** The texts of the content, one per line. */
  text: string;
  content: Sdk.ContentBlock[];
  structured: Structured;
  isError: boolean;
  /** The progress of the handler, in order. */
  progress: Sdk.Progress[];
  /** Holds all other notifications during the call, also those of the session's standalone stream. */
  notifications: McpTestNotification[];
}

/** @publicApi */
export interface McpTestNotification {
  method: string;
  params?: Record<string, unknown>;
}

/** @publicApi */
export interface McpCallOptions {
  /** Cancels the call. */
  signal?: AbortSignal;
  /** The request carries it as `_meta`. */
  meta?: Record<string, unknown>;
  /** Called with each progress notification when it comes. */
  onprogress?: (progress: Sdk.Progress) => void;
}

type SamplingQuestion = Extract<McpQuestion, { method: 'sampling/createMessage' }>;
type SamplingAnswer = McpAnswer<{ method: 'sampling/createMessage'; params: object }>;

/** These are the real ones, also when a test runner replaces the globals later. */
const { clearImmediate, clearTimeout, setImmediate, setTimeout } = globalThis;

/** Two polls of a task are so many milliseconds apart. */
const POLL_MS = 5;

/** Waits for nothing longer than that: a test in fake time does not wait for the pace of its server. */
const QUICK: McpClock = {
  now: () => 0,
  setTimeout: (task) => setTimeout(task, POLL_MS),
  setInterval: (task) => setTimeout(task, POLL_MS),
  clear: (timer) => clearTimeout(timer as NodeJS.Timeout | undefined),
};

/**
 * Connects the official client to an app, without a port: the requests go through all of the app's HTTP stack.
 *
 * ```ts
 * const app = (await Test.createTestingModule({ imports: [AppModule] }).compile()).createNestApplication();
 * const mcp = await createMcpTestClient(app, { token: mintTestToken({ sub: 'anna' }) });
 * const { text } = await mcp.callTool('find_order', { id: 'A-1042' });
 * await mcp.close();
 * ```
 *
 * @param app an app on Express or Fastify, which is initialized if it is not. It need not listen.
 * @throws Error (rejects) without the package `@modelcontextprotocol/client`; and with what the client throws, if the
 *   endpoint refuses it
 * @publicApi
 */
export async function createMcpTestClient(
  app: INestApplication,
  options: McpTestClientOptions = {},
): Promise<McpTestClient> {
  const sdk = await loadClient();
  const agent = await agentOf(app);
  try {
    const path = options.endpoint ?? pathOf(app);
    return await McpTestClient.connect(sdk, agent, new URL(path, 'http://localhost'), options);
  } catch (error) {
    agent.destroy();
    throw error;
  }
}

/**
 * Returns a `fetch` for the HTTP routes of an app, without a port: `(await createAppFetch(app))('/mcp', { method: 'POST', … })`.
 *
 * @publicApi
 */
export async function createAppFetch(app: INestApplication): Promise<McpAppFetch> {
  return fetchOver(await agentOf(app));
}

/** Connects to an app that closes without waiting for calls which the test has left behind. */
async function agentOf(app: INestApplication): Promise<McpAppAgent> {
  const agent = await McpAppAgent.of(app);
  for (const endpoint of endpointsIn(app)) endpoint.get(McpEndpoint).endCallsAtOnce();
  return agent;
}

/**
 * A client of one endpoint, which {@link createMcpTestClient} makes.
 *
 * @publicApi
 */
export class McpTestClient implements AsyncDisposable {
  /** Sends HTTP requests to the app, without a port and without the headers of this client. */
  readonly fetch: McpAppFetch;
  /** Holds all notifications that this client has received, except progress. */
  readonly notifications: McpTestNotification[] = [];
  readonly #resumptions: (() => void)[] = [];
  #away = false;
  #closed: Promise<void> | undefined;

  private constructor(
    /** The official client serves everything that has no method here. */
    readonly client: Sdk.Client,
    private readonly transport: Sdk.StreamableHTTPClientTransport,
    private readonly agent: McpAppAgent,
    private readonly url: URL,
    private readonly options: McpTestClientOptions,
    private readonly refusals: RefusalWatch,
    private readonly reports: TaskReports,
  ) {
    this.fetch = fetchOver(agent);
  }

  /** @internal */
  static async connect(
    { Client: SdkClient, StreamableHTTPClientTransport }: typeof Sdk,
    agent: McpAppAgent,
    url: URL,
    options: McpTestClientOptions,
  ): Promise<McpTestClient> {
    const { era, clientInfo = { name: 'nestjs-mcp-streamable-testing', version: '1.0.0' } } = options;
    const mode = era === 'modern' ? { pin: MODERN_REVISIONS[0] } : (era ?? 'auto');
    const capabilities = capabilitiesOf(options);
    const client = new SdkClient(clientInfo, { capabilities, versionNegotiation: { mode } });
    const refusals = new RefusalWatch();
    const reports = new TaskReports();
    const transport = new StreamableHTTPClientTransport(url, {
      fetch: refusals.watching(fetchOver(agent)),
      requestInit: { headers: headersOf(options) },
      reconnectionScheduler: (resume) => connected.#schedule(resume),
    });
    const connected = new McpTestClient(client, transport, agent, url, options, refusals, reports);
    answerQuestions(client, options);
    transport.onmessage = (message) => connected.#note(message);
    const followed = new McpTaskTransport(transport, QUICK, (taskId) => reports.take(taskId));
    try {
      await refusals.attribute(() => client.connect(options.tasks === false ? transport : followed));
    } catch (error) {
      reports.close();
      throw error;
    }
    const { logLevel } = options;
    if (logLevel !== undefined && connected.era === 'legacy') {
      await client.request({ method: 'logging/setLevel', params: { level: logLevel } });
    }
    return connected;
  }

  /** Returns the era that the client and the endpoint have agreed on. */
  get era(): McpEra {
    return this.client.getProtocolEra() as McpEra;
  }

  /** Returns the id of the session; `undefined` in the era without sessions. */
  get sessionId(): string | undefined {
    return this.transport.sessionId;
  }

  /**
   * Calls a tool. A result that is an error (`isError`) is returned.
   *
   * @throws ProtocolError (rejects) when the answer is a JSON-RPC error
   */
  async callTool<Structured = unknown>(
    name: string,
    args: Record<string, unknown> = {},
    { meta, onprogress, signal }: McpCallOptions = {},
  ): Promise<McpToolCallResult<Structured>> {
    const { length } = this.notifications;
    const progress: Sdk.Progress[] = [];
    const params = { name, arguments: args, ...this.#metaWith(meta) };
    const call = this.client.callTool(params, {
      onprogress: (each: Sdk.Progress & { _meta?: Record<string, unknown> }) => {
        // This is the progress event of a poll without a new status message.
        if (each._meta?.[POLLED_META_KEY] !== undefined) return;
        progress.push(each);
        onprogress?.(each);
      },
      ...(signal && { signal }),
    });
    const result = await this.#try(() => call);
    // Messages that came before the answer are delivered by then.
    await new Promise((resolve) => void setImmediate(resolve));
    const { content, structuredContent, isError = false } = result;
    return {
      text: textsOf(content),
      content,
      structured: structuredContent as Structured,
      isError,
      progress,
      notifications: this.notifications.slice(length),
    };
  }

  /** Reads the lists of the endpoint for this caller, with all pages. */
  readonly list = {
    tools: async (): Promise<Sdk.Tool[]> => (await this.#try(() => this.client.listTools())).tools,
    resources: async (): Promise<Sdk.Resource[]> => (await this.#try(() => this.client.listResources())).resources,
    resourceTemplates: async (): Promise<Sdk.ResourceTemplateType[]> =>
      (await this.#try(() => this.client.listResourceTemplates())).resourceTemplates,
    prompts: async (): Promise<Sdk.Prompt[]> => (await this.#try(() => this.client.listPrompts())).prompts,
  };

  /** Reads a resource. @returns its texts, one per line, and its contents */
  async read(uri: string): Promise<{ text: string; contents: Sdk.ReadResourceResult['contents'] }> {
    const { contents } = await this.#try(() => this.client.readResource({ uri, ...this.#metaWith() }));
    return { text: textsOf(contents), contents };
  }

  /** Gets a prompt. @returns the texts of its messages, one per line, and the messages */
  async prompt(
    name: string,
    args: Record<string, string> = {},
  ): Promise<{ text: string; messages: Sdk.PromptMessage[] }> {
    const params = { name, arguments: args, ...this.#metaWith() };
    const { messages } = await this.#try(() => this.client.getPrompt(params));
    return { text: textsOf(messages.map(({ content }) => content)), messages };
  }

  /**
   * Sends one message, or a batch, which the official client would not send. Headers of the era are added, and in the modern
   * era the `_meta` that requests need, if there is no `params._meta`.
   *
   * @param headers are sent beside the usual ones, and replace them
   * @returns when the response has ended
   */
  raw(message: McpRawMessage | McpRawMessage[], headers: Record<string, string> = {}): Promise<McpRawAnswer> {
    const { era, sessionId } = this;
    const caller = { ...headersOf(this.options), ...headers };
    const revision = this.client.getNegotiatedProtocolVersion();
    const capabilities = capabilitiesOf(this.options);
    return sendRaw((init) => this.fetch(this.url, init), message, { era, sessionId, revision, capabilities, caller });
  }

  /**
   * Destroys all connections of this client, like a network failure. A stream of a session then waits for
   * {@link reconnect}; in the modern era, running calls are cancelled.
   */
  dropStreams(): void {
    this.#away = true;
    this.agent.cut();
  }

  /** Resumes the streams that {@link dropStreams} has interrupted, after the last received event. */
  reconnect(): void {
    this.#away = false;
    for (const resume of this.#resumptions.splice(0)) resume();
  }

  /** Ends the session, if there is one, and all connections. Idempotent. */
  close(): Promise<void> {
    return (this.#closed ??= this.#close());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Remembers a refusal for `refusalOf()`. */
  #try<T>(request: () => Promise<T>): Promise<T> {
    return this.refusals.attribute(request);
  }

  async #close(): Promise<void> {
    try {
      // A session that has already ended is not a failure of the test.
      if (this.sessionId !== undefined) await this.transport.terminateSession().catch(() => {});
      await this.client.close();
    } finally {
      this.reports.close();
      this.agent.destroy();
    }
  }

  #schedule(resume: () => void): () => void {
    if (!this.#away) {
      const turn = setImmediate(resume);
      return () => clearImmediate(turn);
    }
    this.#resumptions.push(resume);
    return () => this.#resumptions.splice(0);
  }

  #note({ method, params }: Partial<McpTestNotification> & { id?: unknown }): void {
    if (method === undefined || !method.startsWith('notifications/') || method === 'notifications/progress') return;
    this.notifications.push({ method, ...(params && { params }) });
  }

  /** Returns `_meta` of a request. */
  #metaWith(meta: Record<string, unknown> = {}): { _meta?: Record<string, unknown> } {
    const { logLevel } = this.options;
    const asked = logLevel !== undefined && this.era === 'modern' ? { [LOG_LEVEL_META_KEY]: logLevel } : {};
    const all = { ...asked, ...meta };
    return Object.keys(all).length > 0 ? { _meta: all } : {};
  }
}

/** Loads the official client. @throws Error that says what to install */
async function loadClient(): Promise<typeof Sdk> {
  try {
    return await import('@modelcontextprotocol/client');
  } catch (cause) {
    const { code } = cause as { code?: string };
    if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND') throw cause;
    const text =
      'createMcpTestClient() calls with the official client, which is not installed: npm install --save-dev @modelcontextprotocol/client';
    throw new Error(text, { cause });
  }
}

function headersOf({ headers, token }: McpTestClientOptions): Record<string, string> {
  return { ...(token !== undefined && { authorization: `Bearer ${token}` }), ...headers };
}

function capabilitiesOf({ elicit, sample, roots, capabilities }: McpTestClientOptions): Sdk.ClientCapabilities {
  return {
    ...(elicit && { elicitation: { form: {} } }),
    ...(sample && { sampling: {} }),
    ...(roots && { roots: {} }),
    ...capabilities,
  };
}

function answerQuestions(client: Sdk.Client, { elicit, sample, roots }: McpTestClientOptions): void {
  if (elicit) client.setRequestHandler('elicitation/create', ({ params }) => elicit(params));
  if (sample) client.setRequestHandler('sampling/createMessage', ({ params }) => sample(params));
  if (roots) client.setRequestHandler('roots/list', () => ({ roots }));
}

function textsOf(parts: readonly object[]): string {
  return parts.flatMap((part) => ('text' in part ? [part.text as string] : [])).join('\n');
}
