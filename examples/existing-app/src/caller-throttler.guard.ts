import { Injectable } from '@nestjs/common';
import { ThrottlerGuard } from '@nestjs/throttler';
import type { User } from './auth/jwt.guard.js';

/**
 * Counts by user, and by address before the login: all users of one MCP client in the cloud come from its addresses.
 *
 * MCP: a tool that is called too often fails with the text of this guard, which the model reads.
 */
@Injectable()
export class CallerThrottlerGuard extends ThrottlerGuard {
  protected override getTracker({ user, ip }: { user?: User; ip: string }): Promise<string> {
    return Promise.resolve(user?.id ?? ip);
  }
}
