// #region routes
import {
  Body,
  Controller,
  Delete,
  Inject,
  Param,
  Post,
  Req,
  UseGuards,
} from '@nestjs/common';
import { ApiKeys } from './api-keys.js';
import { LoginGuard, type LoggedIn } from './login.guard.js';

/**
 * Personal tokens: users make and delete their own, with the session of your app, and
 * not with a key.
 */
@Controller('keys')
@UseGuards(LoginGuard)
export class ApiKeysController {
  constructor(@Inject(ApiKeys) private readonly keys: ApiKeys) {}

  @Post()
  async issue(
    @Req() { user }: LoggedIn,
    @Body('scopes') asked: unknown,
  ): Promise<{ key: string }> {
    // Never more than the user may do.
    const scopes = user.scopes.filter(
      (scope) => Array.isArray(asked) && asked.includes(scope),
    );
    return { key: await this.keys.issue(user.id, scopes, 90) };
  }

  @Delete(':id')
  async revoke(
    @Req() { user }: LoggedIn,
    @Param('id') id: string,
  ): Promise<{ deleted: boolean }> {
    return { deleted: await this.keys.revoke(id, user.id) };
  }
}
// #endregion
