import type { Subscription } from 'rxjs';
import type { HandlerListChange, HandlerTable } from '../handlers/handler-table.js';
import type { McpSessionService } from '../session/mcp-session.service.js';

/**
 * Tells the sessions of an endpoint that a list has changed: once per list and turn of the event loop, however many
 * entries came and went in it.
 */
export class ListChangedRelay {
  readonly #changed = new Set<HandlerListChange['list']>();
  readonly #subscription: Subscription;
  #turn: NodeJS.Immediate | undefined;

  constructor(
    table: HandlerTable,
    private readonly sessions: McpSessionService,
    private readonly report: (error: unknown) => void,
  ) {
    this.#subscription = table.changes$.subscribe(({ list }) => {
      this.#changed.add(list);
      this.#turn ??= setImmediate(() => this.#tell());
    });
  }

  close(): void {
    clearImmediate(this.#turn);
    this.#subscription.unsubscribe();
  }

  #tell(): void {
    this.#turn = undefined;
    for (const list of this.#changed) {
      this.sessions.announce({ method: `notifications/${list}/list_changed` }).catch(this.report);
    }
    this.#changed.clear();
  }
}
