import { type CanActivate, type ExecutionContext, ForbiddenException, Injectable } from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';

/**
 * A guard that believes everybody: `Authorization: Bearer <user>.<token>` is that user, whatever the token. Who says
 * nothing is let in as nobody.
 */
export const trustingGuard: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest();
    const [, sub, token] = /^Bearer (\w+)\.(\w+)$/.exec(request.headers.authorization ?? '') ?? [];
    if (sub !== undefined) request.user = { sub, token };
    return true;
  },
};

/** The headers of a user, who gets a fresh token now and then. */
export function as(user: string, token = 'token1'): { authorization: string } {
  return { authorization: `Bearer ${user}.${token}` };
}

/** Gives a request the address that its client claims, as a proxy does that the app trusts. */
export const addressGuard: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<{ headers: Record<string, string> }>();
    const value = request.headers['x-from'];
    if (value) Object.defineProperty(request, 'ip', { value });
    return true;
  },
};

/** The header of a client that claims an address, for {@link addressGuard}. */
export const from = (address: string): Record<string, string> => ({ 'x-from': address });

/** Refuses every caller. */
@Injectable()
export class Never implements CanActivate {
  canActivate(): boolean {
    throw new ForbiddenException('Not you.');
  }
}

/**
 * Makes a guard one that decides by arguments. Lists show its handlers to every caller, so that its denial is the answer of a call;
 * that of other guards hides the handler (D30).
 */
export function decidesByArguments(context: ExecutionContext): void {
  if (McpExecutionContext.isMcp(context)) McpExecutionContext.create(context).getArgs();
}
