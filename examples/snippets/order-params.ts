import {
  createParamDecorator,
  type ExecutionContext,
  Injectable,
  ParseIntPipe,
} from '@nestjs/common';
import { McpArgs, type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';

// #region params
/** Your app may have this decorator already, for its controllers. */
export const User = createParamDecorator((_: unknown, context: ExecutionContext) => {
  return context.switchToHttp().getRequest<{ user?: { id: string } }>().user;
});

@Injectable()
export class ParamTools {
  @Tool({
    name: 'list_mine',
    inputSchema: { type: 'object', properties: { limit: { type: 'string' } } },
  })
  list(
    @McpArgs('limit', ParseIntPipe) limit: number,
    @User() user: { id: string } | undefined,
    @McpCtx() ctx: McpContext,
  ): string {
    return `At most ${limit} orders of ${user?.id ?? ctx.principal ?? 'an anonymous caller'}`;
  }

  /** A method without param decorators gets the arguments and the context. */
  @Tool({ name: 'who_am_i' })
  whoAmI(_args: object, ctx: McpContext): string {
    return `You use ${ctx.session?.clientInfo.name}.`;
  }
}
// #endregion
