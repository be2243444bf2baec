// #region events
import { Inject, Injectable, Logger, type OnModuleInit } from '@nestjs/common';
import { McpSessionService } from 'nestjs-mcp-streamable';

@Injectable()
export class SessionLog implements OnModuleInit {
  readonly #logger = new Logger('Sessions');

  constructor(@Inject(McpSessionService) private readonly sessions: McpSessionService) {}

  onModuleInit(): void {
    this.sessions.events$.subscribe((event) => {
      // The id of an anonymous session is a credential: only its first characters go to
      // the log.
      const session = event.sessionId.slice(0, 6);
      if (event.type === 'created')
        this.#logger.log(`${session} began: ${event.session.clientInfo.name}`);
      if (event.type === 'closed') this.#logger.log(`${session} ended: ${event.reason}`);
    });
  }
}
// #endregion
