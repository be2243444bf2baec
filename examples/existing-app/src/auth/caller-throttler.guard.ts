import { Injectable } from '@nestjs/common';
import { ThrottlerGuard } from '@nestjs/throttler';
import type { User } from './jwt.guard.js';

/** MCP: by user, since all users of a client in the cloud share its addresses. Its text is the result of a tool then. */
@Injectable()
export class CallerThrottlerGuard extends ThrottlerGuard {
  protected override getTracker({ user, ip }: { user?: User; ip: string }): Promise<string> {
    return Promise.resolve(user?.id ?? ip);
  }
}
