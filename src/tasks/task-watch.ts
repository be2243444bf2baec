import { Observable, type Subscriber } from 'rxjs';
import type { Clock, ClockTimer } from '../common/clock.js';
import type { StreamFlow } from '../context/mcp-exchange.js';
import type { TaskNotification } from '../context/mcp-tasks.js';
import { hasEnded, type McpStoredTask } from './task-store.js';
import { detailedTask } from './task-wire.js';

/** Milliseconds between two notifications of one task. */
const QUIET_MS = 1_000;

/** What a watch needs. */
export interface WatchedTasks {
  readonly clock: Clock;
  /** Ids of tasks that have changed. */
  readonly changes$: Observable<string>;
  /** Changes may have been missed. */
  readonly missed$: Observable<void>;
  find(id: string): Promise<McpStoredTask | undefined>;
  /** How many watches there are has changed. */
  count(difference: 1 | -1): void;
}

/**
 * # What one client hears of its tasks
 *
 * A notification says what the record says when it is sent, so a task that changed a hundred times is said once; each task at
 * most once a second. While the reader is slow nothing is read. A task that has ended is said once, and then forgotten.
 *
 * It begins with what has happened to the tasks before: between the answer of a call and the subscription a task may end.
 */
export class TaskWatch {
  readonly notifications$: Observable<TaskNotification>;

  constructor(ids: readonly string[], flow: StreamFlow, tasks: WatchedTasks) {
    this.notifications$ = new Observable((subscriber) => {
      tasks.count(1);
      subscriber.add(() => tasks.count(-1));
      const watched = new Map(ids.map((id) => [id, new Watched(id, flow, tasks, subscriber)]));
      const all = (): void => watched.forEach((task) => task.changed());
      subscriber.add(tasks.changes$.subscribe((id) => watched.get(id)?.changed()));
      subscriber.add(tasks.missed$.subscribe(all));
      subscriber.add(flow.resumed$.subscribe(() => watched.forEach((task) => task.go())));
      subscriber.add(() => watched.forEach((task) => task.end()));
      all();
    });
  }
}

class Watched {
  #dirty = false;
  #reading = false;
  #pause: ClockTimer | undefined;
  #over = false;
  /** What was said last; before anything was, what the client knows from the answer to its call. */
  #said = 'working';

  constructor(
    private readonly id: string,
    private readonly flow: StreamFlow,
    private readonly tasks: WatchedTasks,
    private readonly subscriber: Subscriber<TaskNotification>,
  ) {}

  changed(): void {
    this.#dirty = true;
    this.go();
  }

  go(): void {
    if (this.#dirty && !this.#over && !this.#reading && !this.#pause && !this.flow.paused) void this.#say();
  }

  end(): void {
    this.#over = true;
    this.tasks.clock.clear(this.#pause);
    this.#pause = undefined;
  }

  async #say(): Promise<void> {
    this.#dirty = false;
    this.#reading = true;
    try {
      const task = await this.tasks.find(this.id);
      this.#reading = false;
      if (this.#over) return;
      if (!task) return this.end();
      const said = gistOf(task);
      if (said !== this.#said) {
        this.#said = said;
        this.subscriber.next({ method: 'notifications/tasks', params: detailedTask(task) });
        if (hasEnded(task.status)) return this.end();
        this.#rest();
      } else this.go();
    } catch {
      // The store is away: said there. The task is looked at again after a while.
      this.#reading = false;
      this.#dirty = true;
      if (!this.#over) this.#rest();
    }
  }

  #rest(): void {
    this.#pause = this.tasks.clock.setTimeout(() => {
      this.#pause = undefined;
      this.go();
    }, QUIET_MS);
  }
}

/** What distinguishes two states of a task; a new task has said all with its status. */
function gistOf({ status, statusMessage, lastUpdatedAt, createdAt, questions }: McpStoredTask): string {
  if (status === 'working' && !statusMessage && lastUpdatedAt === createdAt) return 'working';
  return JSON.stringify([status, statusMessage, lastUpdatedAt, Object.keys(questions)]);
}
