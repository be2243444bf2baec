import { type CanActivate, type ExecutionContext, Injectable, UnauthorizedException } from '@nestjs/common';

interface UserRequest {
  readonly headers: Readonly<Record<string, string | undefined>>;
  user?: { readonly id: string };
}

/** The users of the gateway, and their tokens for other servers. A real one keeps them encrypted, in a database. */
export const KEYS = new Map([
  ['key-of-ann', 'ann'],
  ['key-of-gus', 'gus'],
]);
export const TICKET_TOKENS = new Map([
  ['ann', 'token of ann'],
  ['gus', 'token of gus'],
]);

/** Lets users in, by their API key. The principal of a call is `user.id`. */
@Injectable()
export class ApiKeyGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const request = context.switchToHttp().getRequest<UserRequest>();
    const id = KEYS.get(request.headers['x-api-key'] ?? '');
    if (id === undefined) throw new UnauthorizedException('Send your API key as X-Api-Key.');
    request.user = { id };
    return true;
  }
}
