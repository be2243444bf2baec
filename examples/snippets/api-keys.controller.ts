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
 * Users make and delete their own personal tokens. They use the login of your app for
 * that, not a key.
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
    // A key never has more scopes than its user.
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
