import type { McpHandlerFunction } from 'nestjs-mcp-streamable';
import { expect } from 'vitest';
import type { TestApp } from '../support/app.js';
import { registryOf } from '../support/test-apps.js';
import type { RawResponse, SseStream } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import { LATEST, RawClient } from '../support/raw-client.js';

export type Era = 'legacy' | 'modern';
export const ERAS: readonly Era[] = ['legacy', 'modern'];

interface Answer {
  readonly status: number;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  readonly result?: any;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** A client of one era, for tests that ask the same in both. */
export class Caller {
  private constructor(
    readonly era: Era,
    private readonly client: RawClient | ModernClient,
    private readonly capabilities: object,
  ) {}

  static async of(app: TestApp, era: Era, capabilities: object = {}, revision = LATEST): Promise<Caller> {
    const client = era === 'modern' ? new ModernClient(app.url) : await app.client().initialize(revision, capabilities);
    return new Caller(era, client, capabilities);
  }

  /** The session of a client that has one. */
  get session(): RawClient {
    if (this.client instanceof RawClient) return this.client;
    throw new Error('A client of revision 2026-07-28 has no session.');
  }

  /** @param meta beside what the era has in every `_meta` */
  request(
    method: string,
    params: Record<string, unknown> = {},
    meta: Record<string, unknown> = {},
  ): Promise<RawResponse> {
    const { client, capabilities } = this;
    if (client instanceof ModernClient) return client.request(method, params, { capabilities, meta });
    const id = client.nextId();
    const _meta = Object.keys(meta).length > 0 ? { _meta: meta } : {};
    return client.post({ jsonrpc: '2.0', id, method, params: { ...params, ..._meta } });
  }

  /** Asks, and reads the answer, however it comes. */
  async ask(method: string, params: Record<string, unknown> = {}, meta: Record<string, unknown> = {}): Promise<Answer> {
    const response = await this.request(method, params, meta);
    const { status } = response;
    if (response.header('content-type') !== 'text/event-stream') return { status, ...(await response.json()) };
    const stream = response.sse();
    await stream.end();
    return { status, ...stream.messages.at(-1) };
  }

  call(name: string, args: object = {}): Promise<Answer> {
    return this.ask('tools/call', { name, arguments: args });
  }

  /** Calls a tool that asks: its stream, with the first question on it. */
  async questioned(name: string, args: object = {}): Promise<SseStream> {
    const response = await this.request('tools/call', { name, arguments: args });
    return response.sse().count(1);
  }
}

/** What can be asked for, by kind of handler; each is called as the test says. */
export const REQUESTS: Readonly<Record<'tool' | 'resource' | 'prompt', (name: string) => Requested>> = {
  tool: (name) => ['tools/call', { name, arguments: {} }],
  resource: (name) => ['resources/read', { uri: `app://${name}` }],
  prompt: (name) => ['prompts/get', { name }],
};
export type Requested = readonly [method: string, params: Record<string, unknown>];
export const ASKABLE = ['tool', 'resource', 'prompt'] as const;

/** Registers a tool, a resource and a prompt that do the same. */
export function registerAll(app: TestApp, name: string, handler: McpHandlerFunction<object>): void {
  const registry = registryOf(app);
  registry.registerTool({ name, handler });
  registry.registerResource({ uri: `app://${name}`, name, handler });
  registry.registerPrompt({ name, handler });
}

export const EVERYTHING = { elicitation: { form: {}, url: {} }, sampling: { tools: {} }, roots: {} };
export const ACCEPTED = { action: 'accept', content: { name: 'Ann' } };
export const FORM = {
  message: 'Who are you?',
  requestedSchema: {
    type: 'object' as const,
    properties: { name: { type: 'string' as const } },
    required: ['name'],
  },
};
export const SAMPLE = {
  messages: [{ role: 'user' as const, content: { type: 'text' as const, text: 'Hi' } }],
  maxTokens: 5,
};

export function textOf({ result }: Answer): string {
  const [{ text, content }] = result.content ?? result.contents ?? result.messages;
  return text ?? content.text;
}

/** The only text of a tool that failed. */
export function failureOf(answer: Answer): string {
  expect(answer.result).toMatchObject({ isError: true });
  return textOf(answer);
}
