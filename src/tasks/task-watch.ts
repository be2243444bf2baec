import { Observable, type Subscriber } from 'rxjs';
import type { ClockTimer } from '../core/common/clock.js';
import type { OutboundMessage } from '../core/calls/mcp-call.js';
import type { StreamFlow } from '../core/calls/reply.js';
import type { TaskNode } from './running-task.js';
import { hasEnded, type McpStoredTask } from '../stores/task-store.js';
import { detailedTask } from './task-wire.js';

/** Two notifications of one task are so many milliseconds apart. */
const QUIET_MS = 1_000;

/**
 * # The notifications of one client about its tasks
 *
 * A notification has the state of the record when it is sent: a task that changed a hundred times gets one notification, and
 * each task at most one a second. While the reader is slow, no record is read. After the notification of its end a task is
 * not watched any more.
 *
 * It begins with changes before the subscription: a task may end between the answer to its call and the subscription.
 */
export function taskNotifications(
  ids: readonly string[],
  flow: StreamFlow,
  node: TaskNode,
): Observable<OutboundMessage> {
  return new Observable((subscriber) => {
    node.watching(1);
    subscriber.add(() => node.watching(-1));
    const watched = new Map(ids.map((id) => [id, new Watched(id, flow, node, subscriber)]));
    const all = (): void => watched.forEach((task) => task.changed());
    subscriber.add(node.changes$.subscribe((id) => watched.get(id)?.changed()));
    subscriber.add(node.missed$.subscribe(all));
    subscriber.add(flow.resumed$.subscribe(() => watched.forEach((task) => task.go())));
    subscriber.add(() => watched.forEach((task) => task.end()));
    all();
  });
}

class Watched {
  #dirty = false;
  #reading = false;
  #pause: ClockTimer | undefined;
  #ended = false;
  /** The state in the last notification; at first, the state in the answer to the call. */
  #lastGist = 'working';

  constructor(
    private readonly id: string,
    private readonly flow: StreamFlow,
    private readonly node: TaskNode,
    private readonly subscriber: Subscriber<OutboundMessage>,
  ) {}

  changed(): void {
    this.#dirty = true;
    this.go();
  }

  go(): void {
    if (this.#dirty && !this.#ended && !this.#reading && !this.#pause && !this.flow.paused) void this.#send();
  }

  end(): void {
    this.#ended = true;
    this.node.clock.clear(this.#pause);
    this.#pause = undefined;
  }

  async #send(): Promise<void> {
    this.#dirty = false;
    this.#reading = true;
    try {
      const task = await this.node.find(this.id);
      this.#reading = false;
      if (this.#ended) return;
      if (!task) return this.end();
      const gist = gistOf(task);
      if (gist !== this.#lastGist) {
        this.#lastGist = gist;
        this.subscriber.next({ method: 'notifications/tasks', params: detailedTask(task) });
        if (hasEnded(task.status)) return this.end();
        this.#rest();
      } else this.go();
    } catch {
      // The store is unavailable, which is logged elsewhere. The task is read again later.
      this.#reading = false;
      this.#dirty = true;
      if (!this.#ended) this.#rest();
    }
  }

  #rest(): void {
    this.#pause = this.node.clock.setTimeout(() => {
      this.#pause = undefined;
      this.go();
    }, QUIET_MS);
  }
}

/** Returns the parts in which two states of a task differ; for a new task, its status. */
function gistOf({ status, statusMessage, lastUpdatedAt, createdAt, questions }: McpStoredTask): string {
  if (status === 'working' && !statusMessage && lastUpdatedAt === createdAt) return 'working';
  return JSON.stringify([status, statusMessage, lastUpdatedAt, Object.keys(questions)]);
}
