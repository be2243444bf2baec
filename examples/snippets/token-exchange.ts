import { z } from 'zod';
// #region exchange
import { ForbiddenException, Inject, Injectable, Module } from '@nestjs/common';
import { type AuthInfo, McpAuth, RequireScopes } from 'nestjs-mcp-streamable/auth';
import {
  McpArgs,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import {
  ClientSecretBasic,
  Configuration,
  discovery,
  genericGrantRequest,
  ResponseBodyError,
} from 'openid-client';

export const calendar = { url: 'https://calendar.example.com', scope: 'calendar:read' };

/**
 * Your server is a confidential client of the authorization server, and may exchange
 * tokens.
 */
const server = {
  provide: Configuration,
  useFactory: (): Promise<Configuration> =>
    discovery(
      new URL('https://idp.example.com/'),
      'invoices-mcp',
      undefined,
      ClientSecretBasic(process.env['IDP_CLIENT_SECRET']),
    ),
};

const OURS = ['invalid_client', 'unauthorized_client', 'unsupported_grant_type'];
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token';

/**
 * Exchanges the token of a caller for a token of the same user for the calendar (RFC
 * 8693).
 */
@Injectable()
export class CalendarTokens {
  constructor(@Inject(Configuration) private readonly idp: Configuration) {}

  async of({ token }: AuthInfo): Promise<string> {
    try {
      const issued = await genericGrantRequest(
        this.idp,
        'urn:ietf:params:oauth:grant-type:token-exchange',
        {
          subject_token: token,
          subject_token_type: ACCESS_TOKEN,
          requested_token_type: ACCESS_TOKEN,
          resource: calendar.url, // for this API alone; some servers call it "audience"
          scope: calendar.scope, // and no more than the call needs
        },
      );
      return issued.access_token;
    } catch (error) {
      // An outage, or a server that may not exchange tokens, is for the log, and not for
      // the model.
      if (!(error instanceof ResponseBodyError) || OURS.includes(error.error))
        throw error;
      throw new ForbiddenException(
        `The calendar does not serve you (${error.error}). Log in again.`,
        { cause: error },
      );
    }
  }
}
// #endregion

const Day = z.object({ day: z.iso.date() });
// #region tool
@Injectable()
export class CalendarTools {
  constructor(@Inject(CalendarTokens) private readonly tokens: CalendarTokens) {}

  @Tool({
    name: 'list_meetings',
    description: 'Lists your meetings of a day',
    inputSchema: Day,
  })
  @RequireScopes('calendar:read')
  async list(
    @McpArgs('day') day: string,
    @McpAuth() auth: AuthInfo,
    @McpCtx() ctx: McpContext,
  ): Promise<string> {
    const url = new URL('/meetings', calendar.url); // never a host from arguments
    url.searchParams.set('day', day);
    const response = await fetch(url, {
      headers: { authorization: `Bearer ${await this.tokens.of(auth)}` },
      redirect: 'error', // send the token to no other host
      signal: ctx.signal,
    });
    if (!response.ok)
      throw new ForbiddenException(`The calendar answered with ${response.status}.`);
    return response.text();
  }
}
// #endregion

export const resource = {
  url: 'https://api.example.com/mcp',
  issuer: 'https://idp.example.com/',
};
// #region module
@Module({
  imports: [
    McpStreamableModule.forRootAsync({
      useFactory: () => ({
        serverInfo: { name: 'calendar', version: '1.0.0' },
        auth: { resource: resource.url, authorizationServers: [resource.issuer] },
      }),
    }),
  ],
  providers: [server, CalendarTokens, CalendarTools],
})
export class AppModule {}
// #endregion
