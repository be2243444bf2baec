// #region announce
import { Inject, Injectable } from '@nestjs/common';
import { McpSessionService } from 'nestjs-mcp-streamable';

const message = (data: string) => ({
  method: 'notifications/message' as const,
  params: { level: 'notice' as const, data },
});

@Injectable()
export class Announcer {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  /** @returns the number of sessions */
  announce(text: string): Promise<number> {
    return this.sessions.notify(() => true, message(text));
  }

  /** Notifies all clients of one user, such as several tabs. */
  tell(user: string, text: string): Promise<number> {
    return this.sessions.notify(({ principal }) => principal === user, message(text));
  }
}
// #endregion

// #region ask
@Injectable()
export class Questions {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  /** The client must listen (GET), and support elicitation. */
  async confirm(sessionId: string, message: string): Promise<boolean> {
    const requestedSchema = {
      type: 'object',
      properties: { yes: { type: 'boolean' } },
      required: ['yes'],
    };
    const answer = await this.sessions.request(sessionId, {
      method: 'elicitation/create',
      params: { message, requestedSchema },
    });
    return answer.action === 'accept' && answer.content?.['yes'] === true;
  }
}
// #endregion
