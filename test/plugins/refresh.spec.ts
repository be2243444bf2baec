import { type CanActivate, type ExecutionContext, ForbiddenException, Injectable, UseGuards } from '@nestjs/common';
import { McpRegistry, Prompt, Tool } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type ListedKind,
  type McpEndpointHost,
  type McpEndpointPlugin,
  type McpHandlerHooks,
  McpPlugin,
} from '../../src/core/plugins/mcp-plugin.js';
import type { McpRing } from '../../src/core/plugins/rings.js';
import { TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { sharedApp } from '../support/test-apps.js';

/** Answers about handlers as a test says. */
class Changing extends McpPlugin {
  readonly asked: string[] = [];
  answer: (key: string) => McpHandlerHooks | undefined = () => undefined;
  refresh: (kind?: ListedKind) => void = () => {};

  constructor(readonly ring: McpRing) {
    super();
  }
  attach({ refresh }: McpEndpointHost): McpEndpointPlugin {
    this.refresh = refresh;
    return {
      handler: ({ key }) => {
        this.asked.push(key);
        return this.answer(key);
      },
    };
  }
}

@Injectable()
class NotMallory implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { headers } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    if (headers['x-user'] === 'mallory') throw new ForbiddenException('Not you.');
    return true;
  }
}

@Injectable()
class Tools {
  @Tool({ name: 'plain' })
  plain(): string {
    return 'ran';
  }
  @Tool({ name: 'guarded' })
  @UseGuards(NotMallory)
  guarded(): string {
    return 'ran';
  }
  @Prompt({ name: 'hello' })
  hello(): string {
    return 'Hello!';
  }
}

const said = (text: string): McpHandlerHooks => ({
  run: (run) => ({ around: () => run.answer({ content: [{ type: 'text', text }] }) }),
});

describe('a plugin that changes its answers', () => {
  const [changing, other] = [new Changing('app'), new Changing('app')];
  let app: TestApp;
  let client: ModernClient;
  const launch = sharedApp(() =>
    TestApp.start({
      adapter: 'fastify',
      server: undefined,
      listCache: { ttlMs: 1_000, scope: 'public' },
      providers: [Tools, NotMallory, ...[changing, other].map((useValue) => ({ provide: Symbol(), useValue }))],
    }),
  );
  beforeEach(async () => {
    app = await launch();
    client = new ModernClient(app.url);
  });
  afterEach(() => {
    changing.answer = () => undefined;
    changing.refresh();
  });
  const call = async (name: string, headers = {}) =>
    await new ModernClient(app.url, headers).ask('tools/call', { name });
  const textOf = async (name: string): Promise<string> => (await call(name)).result.content[0].text;

  it('a plugin that changes its answers is asked again when it says so, about each handler that is called, and no other plugin is', async () => {
    expect(await textOf('plain')).toBe('ran');
    changing.answer = said;
    expect(await textOf('plain')).toBe('ran');
    [changing, other].forEach(({ asked }) => asked.splice(0));
    changing.refresh();
    expect([await textOf('plain'), await textOf('plain'), await textOf('guarded')]).toEqual([
      'plain',
      'plain',
      'guarded',
    ]);
    expect([changing.asked, other.asked]).toEqual([['plain', 'guarded'], []]);
  });

  it('a plugin that changes its answers hides handlers from all callers, and tells clients when it names their kind', async () => {
    const stream = await client.listen({ toolsListChanged: true, promptsListChanged: true });
    changing.answer = () => ({ hidden: true });
    changing.refresh();
    changing.refresh('prompt');
    await stream.count(2);
    expect(stream.messages[1].method).toBe('notifications/prompts/list_changed');
    expect((await client.ask('tools/list')).result.tools).toEqual([]);
    // Its handlers have no guards.
    expect((await client.ask('prompts/list')).result).toMatchObject({ prompts: [], cacheScope: 'public' });
    expect(await textOf('plain')).toBe('ran');
    changing.answer = () => undefined;
    changing.refresh('tool');
    await stream.count(3);
    expect((await client.ask('tools/list')).result.tools).toHaveLength(2);
    stream.destroy();
  });

  it('a plugin that changes its answers decides about a handler that is registered after it', async () => {
    changing.answer = said;
    changing.refresh();
    const tool = app.app.get(McpRegistry).registerTool({ name: 'late', handler: () => 'ran' });
    expect(await textOf('late')).toBe('late');
    tool.remove();
  });

  it('a plugin that changes its answers cannot refuse a handler that is served: its calls fail, behind the guards', async () => {
    changing.answer = () => {
      throw new Error('It has no plan.');
    };
    changing.refresh();
    const { error } = await call('guarded');
    expect(error.code).toBe(-32603);
    expect((await call('guarded', { 'x-user': 'mallory' })).error.message).toContain('not found');
    expect((await client.ask('tools/list')).result.tools).toHaveLength(2);
    changing.answer = () => undefined;
    changing.refresh();
    expect(await textOf('guarded')).toBe('ran');
    app.log.release();
  });
});
