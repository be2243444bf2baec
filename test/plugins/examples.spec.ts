import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  type INestApplication,
  Injectable,
  Logger,
  type Provider,
  UseGuards,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpExecutionContext, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { InMemoryStateStore, McpClock } from 'nestjs-mcp-streamable/stores';
import { createMcpTestClient, ManualClock, type McpTestClient } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CachedMs, ResultCache } from '../../examples/snippets/plugin-cache.js';
import { MaskedEmails } from '../../examples/snippets/plugin-masking.js';
import { PROMPT_FILE, PromptFile } from '../../examples/snippets/plugin-prompts.js';
import { PerDay, PlanQuota } from '../../examples/snippets/plugin-quota.js';
import { ToolTimes } from '../../examples/snippets/plugin-timing.js';
import { serverInfo } from '../support/app.js';

/** `Authorization: Bearer <user>` is that user; of a user whose name ends with "pro" the plan is that. */
const believes: CanActivate = {
  canActivate(context: ExecutionContext) {
    const request = context.switchToHttp().getRequest<{ headers: { authorization?: string }; user?: object }>();
    const id = request.headers.authorization?.split(' ')[1];
    if (id) request.user = { id, plan: id.endsWith('pro') ? 'pro' : 'free' };
    return true;
  },
};

const banned = new Set<string>();
@Injectable()
class NotBanned implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (banned.has(McpExecutionContext.create(context).getContext().principal!))
      throw new ForbiddenException('Not you.');
    return true;
  }
}

let ran = 0;
let clock: ManualClock;
let started: INestApplication;

@Injectable()
class Tools {
  @Tool({ name: 'report' })
  @CachedMs(1_000)
  @UseGuards(NotBanned)
  report(): string {
    return `report ${++ran}`;
  }
  @Tool({ name: 'fails' })
  @CachedMs(1_000)
  fails(): string {
    throw new Error(`Failure ${++ran}`);
  }
  @Tool({ name: 'counted' })
  @PerDay({ free: 2, pro: 3 })
  @UseGuards(NotBanned)
  counted(): string {
    return 'counted';
  }
  @Tool({ name: 'person', outputSchema: { type: 'object' } })
  person(): object {
    return { name: 'Ann', email: 'ann@example.com', others: ['bob@example.com'] };
  }
}

describe.each(['legacy', 'modern'] as const)('the plugins of the documentation (%s)', (era) => {
  const ends: (() => Promise<void>)[] = [];
  const start = async (
    plugin: new (...args: never[]) => object,
    stateStore?: InMemoryStateStore,
    ...more: readonly Provider[]
  ) => {
    const testing = await Test.createTestingModule({
      imports: [
        McpStreamableModule.forRoot({
          serverInfo,
          guards: [believes],
          principal: ({ user }: { user?: { id: string } }) => user?.id,
          ...(stateStore && { stateStore }),
        }),
      ],
      providers: [Tools, plugin, ...more],
    })
      .overrideProvider(McpClock)
      .useValue(clock)
      .compile();
    const app = testing.createNestApplication({ logger: false });
    started = app;
    ends.push(() => app.close());
    return async (token: string): Promise<McpTestClient> => {
      const mcp = await createMcpTestClient(app, { era, token });
      ends.unshift(() => mcp.close());
      return mcp;
    };
  };
  const textOf = async (mcp: McpTestClient, name: string): Promise<string> =>
    mcp.callTool(name, {}).then(
      ({ text }) => text,
      (error: Error) => error.message,
    );
  beforeEach(() => {
    ran = 0;
    banned.clear();
    clock = new ManualClock();
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    for (const end of ends.splice(0)) await end();
  });

  it('a cache of results answers each caller with its own, for its time', async () => {
    const connect = await start(ResultCache);
    const [ann, bob] = [await connect('ann'), await connect('bob')];
    expect(await textOf(ann, 'report')).toBe('report 1');
    expect(await textOf(ann, 'report')).toBe('report 1');
    expect(await textOf(bob, 'report')).toBe('report 2');
    await clock.advance(1_000);
    expect(await textOf(ann, 'report')).toBe('report 3');
  });

  it('a cache of results answers no caller whom guards refuse, and keeps no failure', async () => {
    const connect = await start(ResultCache);
    const ann = await connect('ann');
    expect(await textOf(ann, 'report')).toBe('report 1');
    banned.add('ann');
    expect(await textOf(ann, 'report')).not.toContain('report 1');
    await textOf(ann, 'fails');
    await textOf(ann, 'fails');
    expect(ran).toBe(3);
  });

  it('a quota per plan counts the calls of all nodes, and none that guards refuse', async () => {
    const stateStore = new InMemoryStateStore(clock);
    const [one, other] = [await start(PlanQuota, stateStore), await start(PlanQuota, stateStore)];
    const [here, there] = [await one('ann'), await other('ann')];
    banned.add('ann');
    for (let call = 0; call < 3; call++) expect(await textOf(here, 'counted')).not.toBe('counted');
    banned.clear();
    expect(await textOf(here, 'counted')).toBe('counted');
    expect(await textOf(there, 'counted')).toBe('counted');
    expect(await textOf(here, 'counted')).toBe('No calls left today.');
    const pro = await Promise.all(
      [await one('bob_pro'), await other('bob_pro')].flatMap((mcp) => [textOf(mcp, 'counted'), textOf(mcp, 'counted')]),
    );
    expect(pro.filter((text) => text === 'counted')).toHaveLength(3);
    await clock.advance(86_400_000);
    expect(await textOf(there, 'counted')).toBe('counted');
  });

  it('masking changes texts and structured content', async () => {
    const mcp = await (await start(MaskedEmails))('ann');
    const { text, structured } = await mcp.callTool('person', {});
    expect(structured).toEqual({ name: 'Ann', email: '(masked)', others: ['(masked)'] });
    expect(text).not.toContain('@');
    expect(text).toContain('(masked)');
  });

  it('a source serves the prompts of a file as it was loaded last, and other plugins act on them', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'prompts-'));
    ends.push(async () => Promise.resolve(rmSync(folder, { recursive: true })));
    const file = join(folder, 'prompts.json');
    const write = (...prompts: object[]) => writeFileSync(file, JSON.stringify(prompts));
    write({ name: 'greet', description: 'Greets', text: 'Greet ann@example.com.' });
    const connect = await start(PromptFile, undefined, MaskedEmails, { provide: PROMPT_FILE, useValue: file });
    const mcp = await connect('ann');
    expect((await mcp.prompt('greet', {})).text).toBe('Greet (masked).');
    const names = async () => (await mcp.list.prompts()).map(({ name }) => name);
    expect(await names()).toEqual(['greet']);
    write({ name: 'part', text: 'Part.' }, { name: 'greet', text: 'Greet.' });
    started.get(PromptFile).reload();
    expect(await names()).toEqual(['greet', 'part']);
  });

  it('the times of tools are logged, also of those that fail', async () => {
    const lines: string[] = [];
    vi.spyOn(Logger.prototype, 'log').mockImplementation((line: unknown) => void lines.push(String(line)));
    const mcp = await (await start(ToolTimes))('ann');
    lines.length = 0;
    await textOf(mcp, 'fails');
    await textOf(mcp, 'no_such_tool');
    expect(lines).toEqual([
      expect.stringMatching(/^fails: tool_error after \d+ ms$/),
      expect.stringMatching(/^\(unknown\): -32602 after \d+ ms$/),
    ]);
  });
});
