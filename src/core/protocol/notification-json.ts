import type { RequestId } from './json-rpc.js';

/** A notification, as the server gives it: without an envelope. */
interface Notification {
  readonly method: string;
  readonly params?: Record<string, unknown> | undefined;
}

/** A notification and its JSON, which is made once, for however many clients. A copy of it has no JSON. @internal */
export class WrittenNotification {
  readonly #json: string;

  constructor(
    readonly method: string,
    readonly params: Record<string, unknown> | undefined,
    json: string,
  ) {
    this.#json = json;
  }

  get json(): string {
    return this.#json;
  }
}

/** Returns a notification as the text that goes to its client. @throws TypeError when it cannot be JSON @internal */
export function jsonOf(notification: Notification): string {
  if (notification instanceof WrittenNotification) return notification.json;
  return JSON.stringify({ jsonrpc: '2.0', ...notification });
}

/** Returns a notification for many clients. @throws TypeError when it cannot be JSON @internal */
export function written(notification: Notification): WrittenNotification {
  return new WrittenNotification(notification.method, notification.params, jsonOf(notification));
}

/**
 * Makes the notifications of progress for one request. A handler may report many thousands of times, so their JSON is joined from
 * texts that are kept: that takes half the time of `JSON.stringify`, which is a quarter of the time of an event.
 *
 * @internal
 */
export class ProgressReports {
  #last = -Infinity;
  readonly #begin: string;
  #total: number | undefined;
  #end = '}}';

  constructor(private readonly progressToken: RequestId) {
    const token = JSON.stringify(progressToken);
    this.#begin = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${token},"progress":`;
  }

  /**
   * @returns `undefined` for a report that is not sent: progress is a finite number that grows
   * @throws TypeError when the message cannot be JSON
   */
  next(report: ProgressReport): WrittenNotification | undefined {
    const { progress, message } = report;
    if (!Number.isFinite(progress) || progress <= this.#last) return undefined;
    this.#last = progress;
    const total = Number.isFinite(report.total) ? report.total : undefined;
    if (total !== this.#total) {
      this.#total = total;
      this.#end = total === undefined ? '}}' : `,"total":${total}}}`;
    }
    const text = message === undefined ? undefined : JSON.stringify(message);
    const json =
      text === undefined
        ? `${this.#begin}${progress}${this.#end}`
        : `${this.#begin}${progress},"message":${text}${this.#end}`;
    const params = { progressToken: this.progressToken, progress, total, message };
    return new WrittenNotification('notifications/progress', params, json);
  }
}

interface ProgressReport {
  readonly progress: number;
  readonly total?: number | undefined;
  readonly message?: string | undefined;
}
