import { Inject, Injectable, type OnApplicationBootstrap, type OnApplicationShutdown } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { DeadNodes } from '../core/nodes/dead-nodes.js';
import { BusNodes } from '../core/nodes/bus-nodes.js';
import { McpClock } from '../core/common/clock.js';
import { contract, McpOptionError, required } from '../core/common/options.js';
import { ENDPOINT_NAME, type EndpointName } from '../core/calls/endpoint-name.js';
import { type ReportStoreFault, STORE_FAULT } from '../core/calls/operator-log.js';
import { MCP_BACKEND } from '../core/calls/replaceable-part.js';
import { McpExtension } from '../core/methods/extensions.js';
import { ToolAccess } from '../core/methods/tool-access.js';
import type { ServedMethods } from '../core/methods/method.js';
import { ListenTopics } from '../core/plugins/listen-topics.js';
import { TASKS_EXTENSION } from '../core/protocol/extensions.js';
import { EndpointTasks } from './endpoint-tasks.js';
import { InMemoryTaskStore } from './in-memory-task-store.js';
import { taskMethods } from './task-methods.js';
import type { McpTaskStore } from './task-store.js';
import { type ResolvedTasksOptions, STORE_METHODS, TASKS_OPTIONS } from './tasks.options.js';

/** Adds the extension for tasks to one endpoint. */
@Injectable()
export class TasksExtension extends McpExtension implements OnApplicationBootstrap, OnApplicationShutdown {
  override readonly id = TASKS_EXTENSION;
  override readonly era = 'modern';
  override readonly endpoint: string | undefined;
  #tasks: EndpointTasks | undefined;
  /** The option `name` of the endpoint that it was added to. */
  #at: string | undefined;

  constructor(@Inject(TASKS_OPTIONS) private readonly options: ResolvedTasksOptions) {
    super();
    this.endpoint = options.endpoint;
  }

  /** Returns the tasks of the endpoint. @throws Error before the app is initialized */
  get tasks(): EndpointTasks {
    if (this.#tasks) return this.#tasks;
    throw new Error('The app is not initialized yet. Use its tasks after app.init() or app.listen().');
  }

  /** Returns the tasks of an endpoint; `undefined`: it has none. */
  at(endpoint: string | undefined): EndpointTasks | undefined {
    return endpoint === this.#at ? this.#tasks : undefined;
  }

  /**
   * Returns the methods of the extension.
   *
   * @throws McpOptionError if the endpoint has tasks already, or its nodes share no task store
   */
  override methods(endpoint: ModuleRef): ServedMethods {
    const topics = endpoint.get(ListenTopics, { strict: true });
    if (topics.has(TOPIC)) {
      const text =
        'An endpoint has two McpTasksModule. Remove one, or give each its own endpoint: forRoot({ endpoint: name }).';
      throw new McpOptionError('endpoint', text);
    }
    const clock = endpoint.get<McpClock>(McpClock, { strict: true });
    const nodes = endpoint.get(BusNodes, { strict: true });
    const backend = endpoint.get<Backend | undefined>(MCP_BACKEND, { strict: true });
    const access = endpoint.get(ToolAccess, { strict: true });
    const fault = endpoint.get<ReportStoreFault>(STORE_FAULT, { strict: true });
    const store = this.#store(backend, clock);
    const tasks = new EndpointTasks(store, clock, nodes, this.options, access, fault);
    endpoint.get(DeadNodes, { strict: true }).also((node) => tasks.failTasksOf(node));
    topics.add(TOPIC, tasks);
    this.#at = endpoint.get<EndpointName>(ENDPOINT_NAME, { strict: true }).name;
    this.#tasks = tasks;
    return taskMethods(tasks, access);
  }

  override async drain(limitMs: number): Promise<void> {
    await this.#tasks?.drain(limitMs);
  }

  /** Checks the option `endpoint`. @throws McpOptionError if no endpoint has its name */
  onApplicationBootstrap(): void {
    if (this.#tasks) return;
    const text =
      'McpTasksModule has no endpoint: the app has none, or only endpoints with names. Give it the option "endpoint".';
    throw new McpOptionError('endpoint', text);
  }

  onApplicationShutdown(): void {
    this.#tasks?.close();
  }

  #store(backend: Backend | undefined, clock: McpClock): McpTaskStore {
    if (this.options.store) return this.options.store;
    if (!backend) return new InMemoryTaskStore(clock);
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
