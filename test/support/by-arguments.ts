import type { ExecutionContext } from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';

/**
 * Makes a guard one that decides by arguments. Lists show its handlers to every caller, so that its denial is the answer of a call;
 * that of other guards hides the handler (D30).
 */
export function decidesByArguments(context: ExecutionContext): void {
  if (McpExecutionContext.isMcp(context)) McpExecutionContext.create(context).getArgs();
}
