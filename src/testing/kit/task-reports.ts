import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { TASK_REPORTS_CHANNEL, type TaskReport } from '../../core/protocol/extensions.js';

/**
 * Collects what the handlers of this process report while their calls are tasks. Clients read only the last status
 * message at each poll; a test gets each report as its handler made it.
 */
export class TaskReports {
  readonly #untaken = new Map<string, TaskReport['report'][]>();
  readonly #note = (message: unknown): void => {
    const { taskId, report } = message as TaskReport;
    const reports = this.#untaken.get(taskId) ?? [];
    this.#untaken.set(taskId, [...reports, report]);
  };

  constructor() {
    subscribe(TASK_REPORTS_CHANNEL, this.#note);
  }

  /** Returns the new reports. @returns the reports of a task since the last call */
  take(taskId: string): readonly TaskReport['report'][] {
    const reports = this.#untaken.get(taskId) ?? [];
    this.#untaken.delete(taskId);
    return reports;
  }

  close(): void {
    unsubscribe(TASK_REPORTS_CHANNEL, this.#note);
    this.#untaken.clear();
  }
}
