import { Inject, Injectable, type OnApplicationShutdown, type OnModuleInit } from '@nestjs/common';
import { DiscoveryService } from '@nestjs/core';
import { McpMessageBus } from '../bus/message-bus.js';
import { Clock } from '../common/clock.js';
import { check, McpOptionError } from '../common/option-checks.js';
import { ENDPOINT_NAME, type EndpointName } from '../context/endpoint-name.js';
import { TaskHost } from '../context/mcp-tasks.js';
import { MCP_BACKEND } from '../context/replaceable-part.js';
import { MethodDispatcher } from '../methods/method-dispatcher.js';
import { EndpointTasks } from './endpoint-tasks.js';
import { InMemoryTaskStore } from './in-memory-task-store.js';
import { taskMethods, TASKS_CAPABILITY } from './task-methods.js';
import type { McpTaskStore } from './task-store.js';
import { type ResolvedTasksOptions, STORE_METHODS, TASKS_OPTIONS } from './tasks.options.js';

/** Finds the endpoint whose tasks these are, and gives it what keeps them. */
@Injectable()
export class TasksStart implements OnModuleInit, OnApplicationShutdown {
  #tasks: EndpointTasks | undefined;

  constructor(
    @Inject(TASKS_OPTIONS) private readonly options: ResolvedTasksOptions,
    @Inject(DiscoveryService) private readonly discovery: DiscoveryService,
  ) {}

  /** The tasks of the endpoint; there from `onModuleInit` on. */
  get tasks(): EndpointTasks {
    if (this.#tasks) return this.#tasks;
    throw new Error('The app is not initialized yet: tasks are there from its onModuleInit on.');
  }

  /** @throws McpOptionError when there is no such endpoint, or its nodes share no store of tasks */
  onModuleInit(): void {
    const host = this.#host();
    const part = <T>(token: symbol): T => host.endpoint.get<T>(token, { strict: true });
    const [clock, bus] = [part<Clock>(Clock), part<McpMessageBus>(McpMessageBus)];
    const tasks = new EndpointTasks(this.#store(part(MCP_BACKEND), clock), clock, bus, this.options);
    const methods = host.endpoint.get(MethodDispatcher, { strict: true });
    methods.add(taskMethods(tasks)).declare(TASKS_CAPABILITY);
    this.#tasks = tasks;
    host.runner = tasks;
  }

  onApplicationShutdown(): void {
    this.#tasks?.close();
  }

  #host(): TaskHost {
    const { endpoint } = this.options;
    const instances = this.discovery.getProviders().map(({ instance }): unknown => instance);
    const hosts = [...new Set(instances)].filter((instance) => instance instanceof TaskHost);
    const nameOf = (host: TaskHost): EndpointName => host.endpoint.get<EndpointName>(ENDPOINT_NAME, { strict: true });
    const [host, other] = hosts.filter((each) => nameOf(each).name === endpoint);
    const known = hosts.map((each) => nameOf(each).name ?? `the one at "${nameOf(each).path}", without a name`);
    if (!host) {
      const wanted = endpoint === undefined ? 'no endpoint without a name' : `no endpoint "${endpoint}"`;
      throw new McpOptionError(
        'endpoint',
        `McpTasksModule finds ${wanted}. There are: ${known.join(', ') || 'none'}. Import McpStreamableModule.forRoot() beside it, and give the option "endpoint" its name.`,
      );
    }
    if (other || host.runner) {
      const which =
        endpoint === undefined ? 'Several endpoints have no name' : `The endpoint "${endpoint}" has tasks already`;
      throw new McpOptionError('endpoint', `${which}. Give each a "name", and each an McpTasksModule of its own.`);
    }
    return host;
  }

  #store(backend: Readonly<Record<string, unknown>> | undefined, clock: Clock): McpTaskStore {
    if (this.options.store) return this.options.store;
    if (!backend) return new InMemoryTaskStore(clock);
    const store = backend['taskStore'] as McpTaskStore | undefined;
    if (store) return check.implementation('backend.taskStore', store, STORE_METHODS)!;
    throw new McpOptionError(
      'store',
      'The endpoint has a "backend" without a "taskStore", so its nodes would not see the tasks of each other. Give McpTasksModule a "store" that they share, or "new InMemoryTaskStore()" for a single node.',
    );
  }
}
