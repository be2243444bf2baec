/** The task that a call has become (the extension `io.modelcontextprotocol/tasks`). @publicApi */
export interface McpTask {
  /** The id that the client gets is unguessable. */
  readonly id: string;
  /**
   * Sets the status message of the task, which clients read as `statusMessage`. It is written at most once a second;
   * the last one counts.
   */
  update(statusMessage: string): void;
}

/** Serves `ctx.task` and `ctx.startTask()` in a call that may become a task. @internal */
export interface TaskPort {
  readonly task: McpTask | undefined;
  /** Makes the call a task now. @returns `undefined` if it stays an ordinary call */
  start(): Promise<McpTask | undefined>;
}
