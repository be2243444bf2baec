// #region session-guard
import { Injectable } from '@nestjs/common';
import { McpSessionGuard, type McpSessionInfo } from 'nestjs-mcp-streamable';

/** Support staff may use the sessions of their customers. */
@Injectable()
export class SupportSessionGuard extends McpSessionGuard {
  protected override canAccess(
    session: McpSessionInfo,
    request: { user: { id: string; roles?: string[] } },
    principal: string | undefined,
  ): boolean | Promise<boolean> {
    return (
      request.user.roles?.includes('support') === true ||
      super.canAccess(session, request, principal)
    );
  }
}
// #endregion
