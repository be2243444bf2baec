import type { ExecutionContext } from '@nestjs/common';
import { describe, expect, it } from 'vitest';
import type { McpContext } from './mcp-context.js';
import { HANDLER_CALL, McpExecutionContext, type McpHandlerCall } from './mcp-execution-context.js';

class Call implements McpHandlerCall {
  readonly context = { principal: 'anna' } as McpContext;
  readonly args = { id: 1 };
  readonly about = { kind: 'tool', name: 'find', handler: (): void => {}, host: Call } as const;
}

function contextOf(...args: unknown[]): ExecutionContext {
  return { getArgByIndex: (index: number) => args[index] } as unknown as ExecutionContext;
}

describe('McpExecutionContext', () => {
  it('McpExecutionContext tells what is known of a handler', () => {
    const call = new Call();
    const context = contextOf({}, { [HANDLER_CALL]: call }, () => {});
    expect(McpExecutionContext.isMcp(context)).toBe(true);
    const mcp = McpExecutionContext.create(context);
    expect([mcp.getContext(), mcp.getArgs(), mcp.getKind(), mcp.getName()]).toEqual([
      call.context,
      { id: 1 },
      'tool',
      'find',
    ]);
    expect([mcp.getHandler(), mcp.getClass()]).toEqual([call.about.handler, Call]);
  });

  it.each([
    ['a route', contextOf({}, {}, () => {})],
    ['a resolver of GraphQL', contextOf({}, {}, {}, { fieldName: 'orders' })],
    ['a message of a microservice', contextOf('data')],
  ])('McpExecutionContext knows nothing of %s', (_name, context) => {
    expect(McpExecutionContext.isMcp(context)).toBe(false);
    expect(() => McpExecutionContext.create(context)).toThrow(/not of an MCP handler/);
  });
});
