import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { contract, McpOptionError, required } from '../core/common/options.js';
import { MCP_BACKEND } from '../core/calls/replaceable-part.js';
import { ToolAccess } from '../core/methods/tool-access.js';
import { type McpEndpointHost, McpPlugin } from '../core/plugins/mcp-plugin.js';
import { TASKS_EXTENSION } from '../core/protocol/extensions.js';
import { EndpointTasks } from './endpoint-tasks.js';
import { InMemoryTaskStore } from './in-memory-task-store.js';
import { taskMethods } from './task-methods.js';
import type { McpTaskStore } from '../stores/task-store.js';
import { type ResolvedTasksOptions, STORE_METHODS, TASKS_OPTIONS } from './tasks.options.js';

/** Adds tasks to one endpoint: the extension with its methods, and what makes calls tasks. */
@Injectable()
export class TasksPlugin extends McpPlugin implements OnApplicationBootstrap {
  readonly ring = 'task';
  override readonly origin = TASKS_EXTENSION;
  override readonly endpoint: string | undefined;
  #tasks: EndpointTasks | undefined;

  constructor(@Inject(TASKS_OPTIONS) private readonly options: ResolvedTasksOptions) {
    super();
    this.endpoint = options.endpoint;
  }

  /** Returns the tasks of the endpoint. @throws Error before the app is initialized */
  get tasks(): EndpointTasks {
    if (this.#tasks) return this.#tasks;
    throw new Error('The app is not initialized yet. Use its tasks after app.init() or app.listen().');
  }

  /** @throws McpOptionError if the endpoint has tasks already, or its nodes share no task store */
  attach(host: McpEndpointHost): EndpointTasks | undefined {
    if (this.endpoint === undefined && !host.isDefault) return undefined;
    if (host.topics.has(TOPIC)) {
      const text =
        'An endpoint has two McpTasksModule. Remove one, or give each its own endpoint: forRoot({ endpoint: name }).';
      throw new McpOptionError('endpoint', text);
    }
    const access = host.get(ToolAccess);
    const tasks = new EndpointTasks(this.#storeOf(host), host, this.options, access);
    host.topics.add(TOPIC, tasks);
    host.extend({ id: TASKS_EXTENSION, era: 'modern', methods: taskMethods(tasks, access) });
    this.#tasks = tasks;
    return tasks;
  }

  /** Checks the option `endpoint`. @throws McpOptionError if no endpoint has its name */
  onApplicationBootstrap(): void {
    if (this.#tasks) return;
    const text =
      'McpTasksModule has no endpoint: the app has none, or only endpoints with names. Give it the option "endpoint".';
    throw new McpOptionError('endpoint', text);
  }

  #storeOf(host: McpEndpointHost): McpTaskStore {
    if (this.options.store) return this.options.store;
    const backend = host.get<Backend | undefined>(MCP_BACKEND);
    if (!backend) return new InMemoryTaskStore(host.clock);
    const { taskStore } = backend;
    if (taskStore) return contract<McpTaskStore>(required, STORE_METHODS)(taskStore, 'backend.taskStore');
    throw new McpOptionError(
      'store',
      'The endpoint has a "backend" without a "taskStore", so its nodes would not see the tasks of each other. Give McpTasksModule a "store" that they share, or "new InMemoryTaskStore()" for a single node.',
    );
  }
}

/** The field in the filter of `subscriptions/listen`. */
const TOPIC = 'taskIds';

interface Backend {
  readonly taskStore?: McpTaskStore;
}
