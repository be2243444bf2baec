import type { InputRequest } from '@modelcontextprotocol/server';

/*
 * # One call that becomes a task (the extension `io.modelcontextprotocol/tasks`)
 */

/** When calls of a tool become tasks: the options of the tool with their defaults, without those of the module. @internal */
export interface ToolTask {
  readonly support: 'optional' | 'required';
  /** The call becomes a task after so many milliseconds; `Infinity`: when the handler calls `startTask()`. */
  readonly afterMs: number;
  readonly ttlMs?: number | undefined;
  readonly pollIntervalMs?: number | undefined;
}

/** The task that a call has become. @publicApi */
export interface McpTask {
  /** The id that the client gets is unguessable. */
  readonly id: string;
  /**
   * Sets the status message of the task, which clients read as `statusMessage`. It is written at most once a second;
   * the last one counts.
   */
  update(statusMessage: string): void;
}

/** Makes one call a task, and carries messages of its handler to the client from then on. @internal */
export interface Takeover {
  readonly task: McpTask | undefined;
  /**
   * Resolves when the method of the handler may run: all guards have accepted the caller, and the arguments are valid.
   */
  entering(): Promise<void> | undefined;
  /** Makes the call a task now. @returns `undefined` if it stays an ordinary call */
  start(): Promise<McpTask | undefined>;
  /** Called when the call is answered with questions: it cannot become a task any more. */
  forbid(): void;
  /** Asks through the task. @returns the answer, unchecked; rejects if the task ends first */
  ask(key: string, question: InputRequest, signal?: AbortSignal): Promise<unknown>;
  progress(report: { progress: number; total?: number | undefined; message?: string | undefined }): void;
}
