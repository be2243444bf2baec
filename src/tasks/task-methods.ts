import type { McpCall } from '../core/calls/mcp-call.js';
import type { ServedMethod, ServedMethods } from '../core/plugins/served-method.js';
import type { ToolAccess } from '../core/methods/tool-access.js';
import { shown } from '../core/protocol/errors.js';
import { isObject, type JsonRpcRequest } from '../core/protocol/json-rpc.js';
import { type ProtocolError, sdk } from '../core/protocol/spec.js';
import type { EndpointTasks } from './endpoint-tasks.js';
import type { McpStoredTask } from '../stores/task-store.js';
import { detailedTask } from './task-wire.js';

interface TaskParams {
  readonly taskId: string;
}
interface UpdateParams extends TaskParams {
  readonly inputResponses: Readonly<Record<string, object>>;
}

const DONE = Object.freeze({ resultType: 'complete' });

/**
 * Serves `tasks/get`, `tasks/update` and `tasks/cancel` of the extension `io.modelcontextprotocol/tasks`. The error for a task of
 * another caller is that of an unknown task. A caller without the scopes of its tool is refused as in `tools/call`.
 *
 * @see https://modelcontextprotocol.io/extensions/tasks
 */
export function taskMethods(tasks: EndpointTasks, access: Pick<ToolAccess, 'assertPermitted'>): ServedMethods {
  const find = async (taskId: string, call: McpCall): Promise<McpStoredTask> => {
    const task = await tasks.find(taskId, call);
    if (!task) throw unknownTask(taskId);
    await access.assertPermitted(task.tool, call);
    return task;
  };
  const get: ServedMethod<TaskParams> = {
    read: taskParams,
    async serve({ taskId }, call) {
      const task = await find(taskId, call);
      return { resultType: 'complete', ...detailedTask(task) };
    },
  };
  const update: ServedMethod<UpdateParams> = {
    read: updateParams,
    async serve({ taskId, inputResponses }, call) {
      const task = await find(taskId, call);
      // The client may have sent any number of keys.
      const asked = Object.keys(task.questions).filter((key) => Object.hasOwn(inputResponses, key));
      if (asked.length === 0) return DONE;
      await tasks.answer(taskId, Object.fromEntries(asked.map((key) => [key, inputResponses[key]!])));
      return DONE;
    },
  };
  const cancel: ServedMethod<TaskParams> = {
    read: taskParams,
    async serve({ taskId }, call) {
      await find(taskId, call);
      await tasks.cancel(taskId);
      return DONE;
    },
  };
  return { 'tasks/get': get, 'tasks/update': update, 'tasks/cancel': cancel };
}

function taskParams({ method, params }: JsonRpcRequest): TaskParams {
  const taskId = params?.['taskId'];
  if (typeof taskId === 'string') return { taskId };
  throw invalid(`"${method}" needs params.taskId, the id of a task as a string; got ${shown(taskId)}.`);
}

function updateParams(request: JsonRpcRequest): UpdateParams {
  const { taskId } = taskParams(request);
  const inputResponses = request.params?.['inputResponses'];
  if (!isObject(inputResponses)) {
    throw invalid(
      `"${request.method}" needs params.inputResponses, an object with an answer for each key; got ${shown(inputResponses)}.`,
    );
  }
  // Values that are no answers are ignored, as in rounds. `fromEntries` defines properties, also for "__proto__".
  const answers = Object.entries(inputResponses).filter(
    (entry): entry is [string, Record<string, unknown>] => isObject(entry[1]) && !('method' in entry[1]),
  );
  return { taskId, inputResponses: Object.fromEntries(answers) };
}

function unknownTask(taskId: string): ProtocolError {
  return invalid(
    `Task ${shown(taskId)} not found: it has expired, or never existed. Call the tool again if its result is still needed.`,
  );
}

function invalid(message: string): ProtocolError {
  return new sdk.ProtocolError(sdk.ProtocolErrorCode.InvalidParams, message);
}
