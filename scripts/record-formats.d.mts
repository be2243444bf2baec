import type { NestFactory } from '@nestjs/core';
import type { FastifyAdapter, NestFastifyApplication } from '@nestjs/platform-fastify';
import type * as main from 'nestjs-mcp-streamable';
import type { RedisBackend } from 'nestjs-mcp-streamable/redis';
import type * as tasks from 'nestjs-mcp-streamable/tasks';

/** A build of the package, and of what it runs on. */
export interface Packages {
  readonly main: typeof main;
  readonly tasks: typeof tasks;
  readonly NestFactory: typeof NestFactory;
  readonly FastifyAdapter: typeof FastifyAdapter;
}

export interface FormatsApp {
  readonly app: NestFastifyApplication;
  readonly url: string;
  readonly registry: main.McpRegistry;
  /** What its tools have done. */
  readonly effects: string[];
}

export function startApp(packages: Packages, backend: RedisBackend): Promise<FormatsApp>;

/** What a client holds while it answers a question. */
export interface NextRound {
  readonly requestState: string;
  readonly inputResponses: Readonly<Record<string, object>>;
}

export class Caller {
  constructor(url: string, user: string);
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  ask(method: string, params: object, capabilities?: object): Promise<any>;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  call(name: string, args: object, more?: object, capabilities?: object): Promise<any>;
  text(name: string, args: object, more?: object, capabilities?: object): Promise<string>;
  asked(name: string, args: object): Promise<NextRound>;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  task(taskId: string): Promise<any>;
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into whatever came
  taskThat(status: string, taskId: string): Promise<any>;
}

export class SessionCaller {
  readonly id: string;
  url: string;
  constructor(url: string, user: string, id?: string);
  initialize(): Promise<this>;
  post(message: object): Promise<Response>;
  work(id: string): Promise<Response>;
  send(method: string, more?: RequestInit): Promise<Response>;
}

export function readUntil(response: Response, text: string): Promise<string>;

export interface RecordedKey {
  readonly key: string;
  readonly type: string;
  readonly ttl: number;
  readonly value: unknown;
}

/** What a build has left in Redis, and what its clients hold. */
export interface Recording {
  readonly version: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly held: {
    readonly paid: string;
    readonly removal: NextRound & { readonly text: string };
    readonly charge: NextRound;
    readonly handle: string;
    readonly page: string;
    readonly session: string;
    readonly lastEventId: string;
    readonly report: string;
    readonly interview: { readonly taskId: string; readonly question: string };
  };
  readonly keys: readonly RecordedKey[];
}
