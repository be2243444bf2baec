// #region talk
import { Inject, Injectable } from '@nestjs/common';
import { McpSessionService } from 'nestjs-mcp-streamable';

@Injectable()
export class Announcer {
  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  /**
   * Notifies all sessions; a predicate could pick some of them.
   *
   * @returns the number of sessions
   */
  announce(text: string): Promise<number> {
    const params = { level: 'notice', data: text };
    return this.sessions.notify(() => true, { method: 'notifications/message', params });
  }

  /**
   * Asks the user of one session. Its client must listen (GET) and support elicitation.
   */
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
