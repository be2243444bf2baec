import { Inject, Optional, type Type } from '@nestjs/common';
import { McpArgs, McpCtx, McpSessionService, ResourceTemplate, Tool, type McpContext } from 'nestjs-mcp-streamable';

/** What a tool of a test does. Without a result it says "done". */
// oxlint-disable-next-line typescript/no-explicit-any -- the arguments are what the test sends
export type TestTool = (args: any, ctx: McpContext, sessions: McpSessionService) => unknown;

/** A provider whose decorated methods are the functions of a test; their arguments are any object. */
export function testTools(tools: Readonly<Record<string, TestTool>>): Type {
  class TestTools {
    readonly sessions!: McpSessionService;
  }
  // An endpoint with a name has another token.
  Optional()(TestTools.prototype, 'sessions');
  Inject(McpSessionService)(TestTools.prototype, 'sessions');
  for (const [name, tool] of Object.entries(tools)) {
    const value = async function (this: TestTools, args: unknown, ctx: McpContext): Promise<unknown> {
      return (await tool(args, ctx, this.sessions)) ?? 'done';
    };
    const descriptor = { value, writable: true, configurable: true, enumerable: false };
    Object.defineProperty(TestTools.prototype, name, descriptor);
    McpArgs()(TestTools.prototype, name, 0);
    McpCtx()(TestTools.prototype, name, 1);
    Tool({ name, description: name, inputSchema: { type: 'object' } })(TestTools.prototype, name, descriptor as never);
  }
  return TestTools;
}

/** A resource of any URI, to which clients can subscribe. */
export class AnyResource {
  @ResourceTemplate({ uriTemplate: '{+any}', name: 'any' })
  read(): string {
    return 'any';
  }
}
