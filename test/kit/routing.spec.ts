import 'reflect-metadata';
import { type CanActivate, type ExecutionContext, type INestApplication, Injectable, UseGuards } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import {
  expectNothingLeft,
  type McpRoutingCase,
  type McpRoutingModel,
  toolRouting,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { RecordedLog } from '../support/recorded-log.js';

@Injectable()
class Staff implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest().headers['authorization'] === 'Bearer staff';
  }
}

@Injectable()
class Orders {
  @Tool({ name: 'find_order', description: 'Finds an order' })
  find(): string {
    return 'found';
  }
  @Tool({ name: 'cancel_order', description: 'Cancels an order' })
  cancel(): string {
    return 'cancelled';
  }
  @Tool({ name: 'refund', description: 'Pays an order back' })
  @UseGuards(Staff)
  refund(): string {
    return 'paid';
  }
}

/** Chooses the tool whose description has most words of what the user asks. */
const byWords: McpRoutingModel = ({ ask, tools }) => {
  const words = ask.toLowerCase().split(' ');
  const scored = tools.map(({ name, description = '' }) => ({
    name,
    score: words.filter((word) => description.toLowerCase().includes(word.slice(0, 4))).length,
  }));
  const best = scored.toSorted((a, b) => b.score - a.score)[0]!;
  return best.score > 0 ? best.name : undefined;
};

const CASES: McpRoutingCase[] = [
  { ask: 'cancel my order', expect: 'cancel_order' },
  { ask: 'find my order', expect: 'find_order', never: ['cancel_order'] },
  { ask: 'hello', expect: undefined },
];

describe('the routing cases of an endpoint', () => {
  let app: INestApplication;

  beforeEach(async () => {
    const log = new RecordedLog();
    const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'shop', version: '1.0.0' } })];
    const testing = Test.createTestingModule({ imports, providers: [Orders, Staff] }).setLogger(log);
    app = (await testing.compile()).createNestApplication({ logger: log });
  });

  afterEach(async () => {
    await expectNothingLeft(app);
    await app.close();
  });

  it('the routing cases of an endpoint are hits where the model chooses what was expected, none included', async () => {
    const { hits, skipped, cases, table } = await toolRouting(app, CASES, byWords);
    expect([hits, skipped]).toEqual([3, false]);
    expect(cases[2]).toEqual({ ask: 'hello', expected: undefined, chosen: undefined, hit: true, forbidden: false });
    expect(table.split('\n')[0]).toBe('3 of 3 routing cases are hits.');
  });

  it('the routing cases of an endpoint fail with a table of hits and misses, and what was chosen instead', async () => {
    const lost = { ask: 'give me my money', expect: 'cancel_order' };
    const cases = [...CASES, lost, { ...lost, ask: 'money' }, { ask: 'find the order', expect: 'cancel_order' }];
    const failure = await toolRouting(app, cases, byWords).catch((error: Error) => error);
    expect((failure as Error).message.split('\n')).toEqual([
      '3 of 6 routing cases are hits.',
      '        ask               expected      chosen',
      '  hit   cancel my order   cancel_order  cancel_order',
      '  hit   find my order     find_order    find_order',
      '  hit   hello             (none)        (none)',
      '  MISS  give me my money  cancel_order  (none)',
      '  MISS  money             cancel_order  (none)',
      '  MISS  find the order    cancel_order  find_order',
      '',
      'Chosen instead of what was expected:',
      '  2 × cancel_order → (none)',
      '  1 × cancel_order → find_order',
    ]);
    expect((await toolRouting(app, cases, byWords, { atLeast: 0.5 })).hits).toBe(3);
  });

  it('the routing cases of an endpoint fail for a tool that must never be chosen, however many misses are allowed', async () => {
    const always: McpRoutingModel = () => 'cancel_order';
    const routing = toolRouting(app, [CASES[1]!], always, { atLeast: 0 });
    await expect(routing).rejects.toThrow(/NEVER {2}find my order {2}find_order {2}cancel_order/);
  });

  it('the routing cases of an endpoint are asked with the tools of the caller', async () => {
    const seen: string[][] = [];
    const model: McpRoutingModel = ({ tools }) => {
      seen.push(tools.map(({ name }) => name));
      return Promise.resolve('find_order');
    };
    await toolRouting(app, [CASES[1]!], model);
    await toolRouting(app, [CASES[1]!], model, { as: 'staff' });
    await toolRouting(app, [CASES[1]!], model, { as: { headers: { authorization: 'Bearer staff' } } });
    const all = ['find_order', 'cancel_order', 'refund'];
    expect(seen).toEqual([['find_order', 'cancel_order'], all, all]);
  });

  it('the routing cases of an endpoint fail for a tool that the caller does not see, before the model is asked', async () => {
    const model = vi.fn(() => undefined);
    for (const wrong of [{ expect: 'refund' }, { expect: 'find_order', never: ['refund'] }]) {
      await expect(toolRouting(app, [{ ask: 'pay me back', ...wrong }], model)).rejects.toThrow(
        'The case "pay me back" names the tool "refund", which this caller does not see. It sees: find_order, cancel_order.',
      );
    }
    expect(model).not.toHaveBeenCalled();
  });

  it('the routing cases of an endpoint are skipped without a model, which the report and the console say', async () => {
    const warn = vi.spyOn(console, 'warn').mockReturnValue();
    const report = await toolRouting(app, CASES, undefined);
    expect(report).toMatchObject({ skipped: true, hits: 0, table: 'Skipped: no model was given for 3 routing cases.' });
    expect(warn).toHaveBeenCalledWith(report.table);
    warn.mockRestore();
  });

  it('the routing cases of an endpoint say at which case a model failed', async () => {
    const failing = toolRouting(app, CASES, () => Promise.reject(new Error('Rate limit')));
    await expect(failing).rejects.toThrow('The model failed at "cancel my order": Rate limit');
  });

  it('the routing cases of an endpoint say what a model must return, and that a share is no percentage', async () => {
    const wrong = toolRouting(app, CASES, (() => ({ name: 'refund' })) as never);
    await expect(wrong).rejects.toThrow(
      'The model must return the name of the tool that it calls, or undefined; at "cancel my order" it returned {"name":"refund"}.',
    );
    const percent = toolRouting(app, CASES, byWords, { atLeast: 90 });
    await expect(percent).rejects.toThrow('The option "atLeast" is a share of the cases, from 0 to 1');
  });

  it('the routing cases of an endpoint fail where there are none, as nothing would be tested', async () => {
    await expect(toolRouting(app, [], byWords)).rejects.toThrow('There is no routing case');
  });

  it('the routing cases of an endpoint are not changed by what a model does to its tools', async () => {
    const greedy: McpRoutingModel = ({ tools }) => (tools as unknown[] as { name: string }[]).splice(0, 1)[0]!.name;
    const { cases } = await toolRouting(app, CASES, greedy, { atLeast: 0 }).catch(() => ({ cases: [] }));
    expect(cases.map(({ chosen }) => chosen)).toEqual(['find_order', 'find_order', 'find_order']);
  });
});
