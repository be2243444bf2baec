import { Logger } from '@nestjs/common';
import { firstValueFrom } from 'rxjs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { HandlerTable, type McpHandlerListChange } from './handler-table.js';
import { McpDuplicateHandlerError, McpHandlerDefinitionError } from '../handlers.errors.js';
import { registryParts } from '../../../../test/support/registry-parts.js';
import { McpRegistry } from './mcp-registry.js';
import { RegisteredEntries } from './registered-entries.js';

const FAILURES = { errorDetails: false, denials: 'result' } as const;
const SOURCES = { mayHave: () => false, added: [] };
const ENDPOINT = { find: () => undefined, offer: { assertHandlers: () => {} } as never, path: 'mcp' };

const entries = (table: HandlerTable): RegisteredEntries => new RegisteredEntries(table, FAILURES, ...registryParts());

function madeRegistry(): {
  table: HandlerTable;
  registry: McpRegistry;
  changes: McpHandlerListChange['list'][];
} {
  const table = new HandlerTable();
  const registry = new McpRegistry(table, ENDPOINT, SOURCES, entries(table));
  const changes: McpHandlerListChange['list'][] = [];
  registry.changes$.subscribe(({ list }) => changes.push(list));
  return { table, registry, changes };
}

describe('the registry', () => {
  beforeAll(() => Logger.overrideLogger(false));
  afterAll(() => Logger.overrideLogger(['error']));

  it('the registry takes handlers back', () => {
    const { registry, changes, table } = madeRegistry();
    const tool = registry.registerTool({ name: 'find', handler: () => '' });
    expect(tool.key).toBe('find');
    expect(tool.remove()).toBe(true);
    expect(tool.remove()).toBe(false);
    expect(table.size('tool')).toBe(0);
    expect(changes).toEqual(['tools', 'tools']);
    expect(() => tool.update({ title: 'x' })).toThrow('it was removed, and can no longer be updated.');
  });

  it('the registry does not take back what came after', () => {
    const { registry, table } = madeRegistry();
    const first = registry.registerTool({ name: 'find', handler: () => 'first' });
    first.remove();
    registry.registerTool({ name: 'find', handler: () => 'second' });
    expect(first.remove()).toBe(false);
    expect(table.size('tool')).toBe(1);
  });

  it('the registry keeps names: an update cannot rename', () => {
    const { registry } = madeRegistry();
    const tool = registry.registerTool({ name: 'a', handler: () => '' });
    tool.update({ name: 'b', title: 'x' } as object);
    expect(registry.list('tool')).toMatchObject([{ key: 'a', wire: { name: 'a', title: 'x' } }]);
  });

  it('the registry leaves everything as it was when a change cannot be served', () => {
    const { registry, changes, table } = madeRegistry();
    const tool = registry.registerTool({ name: 'a', title: 'old', handler: () => '' });
    expect(() => tool.update({ title: 'new', inputSchema: z.string() })).toThrow(McpHandlerDefinitionError);
    table.assertEach((entry) => {
      if (entry.kind === 'tool' && entry.option('timeoutMs') === 0)
        throw new McpHandlerDefinitionError(entry.origin, 'it has no time.');
    });
    expect(() => tool.update({ title: 'new', timeoutMs: 0 })).toThrow('it has no time.');
    expect(registry.list('tool')).toMatchObject([{ wire: { title: 'old' } }]);
    expect(changes).toHaveLength(1);
    tool.update({ description: 'x' });
    expect(registry.list('tool')).toMatchObject([{ wire: { title: 'old', description: 'x' } }]);
  });

  it('the table checks the handlers that are there when a check is added', () => {
    const { registry, table } = madeRegistry();
    registry.registerTool({ name: 'early', handler: () => '' });
    const refuse = ({ origin }: { origin: string }): never => {
      throw new McpHandlerDefinitionError(origin, 'it is refused.');
    };
    expect(() => table.assertEach(refuse)).toThrow(
      'tool "early" (registered at run time) cannot be served: it is refused.',
    );
  });

  it('the registry refuses at once what cannot be served', () => {
    const { registry, changes } = madeRegistry();
    const refused: [() => unknown, string][] = [
      [
        () => registry.registerTool({ name: 'a' } as never),
        'tool "a" (registered at run time) cannot be served: its "handler" must be a function; got nothing.',
      ],
      [() => registry.registerTool({ name: '', handler: () => '' }), 'its "name" must be a non-empty string'],
      [
        () => registry.registerTool({ name: 'a', inputSchema: z.string(), handler: () => '' }),
        'its root must be an object',
      ],
      [
        () =>
          registry.registerTool({
            name: 'a',
            inputSchema: { type: 'object', properties: { b: { type: 'number', 'x-mcp-header': 'B' } } },
            handler: () => '',
          }),
        'tool "a" (registered at run time) cannot be served: its "inputSchema" cannot be used: "b" has an "x-mcp-header"',
      ],
      [() => registry.registerResource({ uri: 'x', name: 'b', handler: () => '' }), 'which is not an absolute URI'],
      [
        () => registry.registerResourceTemplate({ uriTemplate: 'a://b', name: 'b', handler: () => '' }),
        'it has no variables',
      ],
      [
        () => registry.registerPrompt({ name: 'ask', handler: () => '', complete: { x: () => [] } }),
        'the prompt "ask" has no argument "x". None is available.',
      ],
    ];
    for (const [register, message] of refused) {
      expect(register).toThrow(McpHandlerDefinitionError);
      expect(register).toThrow(message);
    }
    registry.registerTool({ name: 'a', handler: () => '' });
    expect(() => registry.registerTool({ name: 'a', handler: () => '' })).toThrow(McpDuplicateHandlerError);
    expect(changes).toEqual(['tools']);
  });

  it('the registry is of no use to an endpoint that makes its servers itself', () => {
    const assertHandlers = (origin: string): never => {
      throw new McpHandlerDefinitionError(origin, 'its endpoint has the option "server"');
    };
    const table = new HandlerTable({ assertHandlers });
    const registry = new McpRegistry(table, ENDPOINT, SOURCES, entries(table));
    expect(() => registry.registerTool({ name: 'a', handler: () => '' })).toThrow(
      'its endpoint has the option "server"',
    );
  });

  it('the registry completes its changes when the endpoint closes', async () => {
    const { registry, table } = madeRegistry();
    const last = firstValueFrom(registry.changes$, { defaultValue: 'closed' });
    table.close();
    expect(await last).toBe('closed');
  });
});
