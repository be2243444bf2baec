import 'reflect-metadata';
import { toolResult } from 'nestjs-mcp-streamable';
import { McpCallRelay, McpClient } from 'nestjs-mcp-streamable/client';
import { createMcpTestClient, ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { TestApp, type TestAppOptions, type TestTool } from '../support/app.js';
import { loneFetch } from '../support/ways.js';

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
});

async function started(options: Partial<TestAppOptions>): Promise<TestApp> {
  const app = await TestApp.start({ adapter: 'fastify', server: undefined, ...options });
  closing.push(() => app.stop());
  return app;
}

const requestedSchema = z.object({ value: z.number() });
const cancelled: string[] = [];
const tools: Record<string, TestTool> = {
  add: async (_, ctx) => {
    ctx.signal.addEventListener('abort', () => void cancelled.push('add'));
    await ctx.progress(1, 2, 'asking');
    let sum = 0;
    for (const key of ['first', 'second']) {
      const answer = await ctx.elicit(key, { message: `The ${key} number?`, requestedSchema });
      if (answer.action !== 'accept') return answer.action;
      sum += answer.content.value;
    }
    return String(sum);
  },
};

/** An app whose tool passes its calls on to `add` of another server. */
async function relaying(
  eras: 'legacy' | 'modern',
  { clock, maxWaiting }: { clock?: ManualClock; maxWaiting?: number } = {},
) {
  const server = await started({ eras, port: true, tools });
  const relay = new McpCallRelay({ ...(clock && { clock }), ...(maxWaiting && { maxWaiting }) });
  const remote = await McpClient.create('remote', {
    url: server.url,
    fetch: loneFetch,
    client: { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } },
    configure: relay.configure,
  });
  const sum: TestTool = async (_, ctx) => {
    const client = await remote.client();
    const result = await relay.call(ctx, (params, sent) => client.callTool({ name: 'add', ...params }, sent));
    return 'content' in result ? toolResult(result as never) : result;
  };
  const app = await started({ tools: { sum }, ...(clock && { clock }) });
  closing.push(() => remote.close());
  return { app, relay };
}

const capabilities = { elicitation: { form: {} } };
const call = { name: 'sum', arguments: {} };
interface Questions {
  readonly requestState: string;
  readonly inputRequests: Readonly<Record<string, unknown>>;
}
const answered = ({ requestState, inputRequests }: Questions, value: number) => {
  const answer = { action: 'accept', content: { value } };
  const inputResponses = Object.fromEntries(Object.keys(inputRequests).map((key) => [key, answer]));
  return { ...call, requestState, inputResponses };
};

describe.each(['legacy', 'modern'] as const)('a call that is passed on to a server of the era %s', (eras) => {
  it.each(['legacy', 'modern'] as const)(
    'a call that is passed on has the progress, questions and result of the server (%s)',
    async (era) => {
      const { app } = await relaying(eras);
      const messages: string[] = [];
      const elicit = ({ message }: { message: string }) => {
        messages.push(message);
        return { action: 'accept' as const, content: { value: messages.length * 20 } };
      };
      const client = await createMcpTestClient(app.app, { era, elicit });
      closing.push(() => client.close());
      const { text, progress } = await client.callTool('sum');
      expect(text).toBe('60');
      expect(messages).toEqual(['The first number?', 'The second number?']);
      expect(progress[0]).toMatchObject({ message: 'asking' });
    },
  );
});

describe('a question that waits for its answer in one process', () => {
  it('a question that waits is refused a second answer', async () => {
    const { app } = await relaying('legacy');
    const user = app.modern();
    const { result: first } = await user.ask('tools/call', call, { capabilities });
    const { result: second } = await user.ask('tools/call', answered(first as Questions, 1), { capabilities });
    const again = await user.ask('tools/call', answered(first as Questions, 1), { capabilities });
    expect(JSON.stringify(again)).toContain('The question has expired');
    const { result } = await user.ask('tools/call', answered(second as Questions, 2), { capabilities });
    expect(result).toMatchObject({ content: [{ text: '3' }] });
  });

  it('a question that waits is cancelled when the relay is closed, and leaves no timer', async () => {
    const clock = new ManualClock();
    const { app, relay } = await relaying('legacy', { clock });
    const before = clock.pending;
    const { result } = await app.modern().ask('tools/call', call, { capabilities });
    expect(clock.pending).toBe(before + 1);
    cancelled.length = 0;
    relay.close();
    await expect.poll(() => cancelled).toEqual(['add']);
    expect(clock.pending).toBe(before);
    const late = await app.modern().ask('tools/call', answered(result as Questions, 1), { capabilities });
    expect(JSON.stringify(late)).toContain('The question has expired');
  });

  it('a question is not asked when too many calls wait for answers', async () => {
    const { app } = await relaying('legacy', { maxWaiting: 1 });
    const user = app.modern();
    const { result } = await user.ask('tools/call', call, { capabilities });
    expect(result).toMatchObject({ resultType: 'input_required' });
    cancelled.length = 0;
    const refused = await user.ask('tools/call', call, { capabilities });
    expect(JSON.stringify(refused)).toContain('Too many users are asked');
    await expect.poll(() => cancelled).toEqual(['add']);
    const next = await user.ask('tools/call', answered(result as Questions, 1), { capabilities });
    expect(next.result).toMatchObject({ resultType: 'input_required' });
  });
});
