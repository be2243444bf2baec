import 'reflect-metadata';
import type { INestApplication } from '@nestjs/common';
import type * as Package from 'nestjs-mcp-streamable';
import { report } from '../agent.js';
import { SERVER_INFO, sum } from '../tools.js';

/** A server of the work `start`: it knows how much CPU time each step of its start has taken. `SCHEMA=json` takes JSON Schemas. */

const { WHAT = 'ours', TOOLS = '10', SCHEMA = 'zod', ENTRY } = process.env;
const NAMES = Array.from({ length: Number(TOOLS) }, (_, index) => (index === 0 ? 'add' : `add${index}`));

/** Milliseconds of CPU time, by step. */
const steps: Record<string, number> = {};

async function step<T>(name: string, run: () => Promise<T>): Promise<T> {
  const before = process.cpuUsage();
  const result = await run();
  const { user, system } = process.cpuUsage(before);
  steps[name] = (user + system) / 1_000;
  return result;
}

type Adding = Record<string, (args: { a: number; b: number }) => object>;

/** A class with a method for each tool. @param decorate stands for the decorator of a method */
function classOf(decorate: (name: string, target: object, method: PropertyDescriptor) => void): new () => Adding {
  class Tools {}
  for (const name of NAMES) {
    const method = { value: (args: { a: number; b: number }) => sum(args), configurable: true, writable: true };
    Object.defineProperty(Tools.prototype, name, method);
    decorate(name, Tools.prototype, method);
  }
  return Tools as new () => Adding;
}

const description = (name: string): string => `Adds two numbers, and is known to its callers as the tool ${name}`;
const JSON_SCHEMA = {
  type: 'object',
  properties: {
    a: { type: 'number', description: 'The first number' },
    b: { type: 'number', description: 'The second number' },
    unit: { type: 'string', description: 'The unit of both', enum: ['m', 'km'] },
  },
  required: ['a', 'b'],
};

async function schemas(): Promise<(name: string) => object> {
  if (SCHEMA === 'json') return (name) => ({ ...JSON_SCHEMA, title: name });
  const { z } = await import('zod');
  return () =>
    z.object({
      a: z.number().describe('The first number'),
      b: z.number().describe('The second number'),
      unit: z.enum(['m', 'km']).optional().describe('The unit of both'),
    });
}

const nest = await step('import of Nest', async () => ({
  ...(await import('@nestjs/common')),
  ...(await import('@nestjs/core')),
}));

/** Tools of the package. */
async function ours(): Promise<object> {
  const { McpStreamableModule, Tool } = await step(
    'import of the package',
    () => import(ENTRY!) as Promise<typeof Package>,
  );
  const schemaOf = await schemas();
  const tools = classOf((name, target, method) =>
    Tool({ name, description: description(name), inputSchema: schemaOf(name) as never })(target, name, method),
  );
  const endpoint = McpStreamableModule.forRoot({ serverInfo: SERVER_INFO, devSessions: false });
  return { module: class {}, imports: [endpoint], providers: [tools] };
}

/** Routes, and one that answers with a list of as many tools. */
function bare(): object {
  const { Body, Controller, Post } = nest;
  const routes = classOf((name, target, method) => {
    Body()(target, name, 0);
    Post(name)(target, name, method);
  });
  Controller('tools')(routes);
  const list = NAMES.map((name) => ({ name, description: description(name), inputSchema: JSON_SCHEMA }));
  class Mcp {
    post({ id }: { id: number }): object {
      return { jsonrpc: '2.0', id, result: { tools: list } };
    }
  }
  Body()(Mcp.prototype, 'post', 0);
  Post()(Mcp.prototype, 'post', Object.getOwnPropertyDescriptor(Mcp.prototype, 'post')!);
  Controller('mcp')(Mcp);
  return { module: class {}, controllers: [routes, Mcp] };
}

const { FastifyAdapter } = await import('@nestjs/platform-fastify');
const module = WHAT === 'bare' ? bare() : await ours();
const app = await step('start', async () => {
  const created: INestApplication = await nest.NestFactory.create(module, new FastifyAdapter(), { logger: ['error'] });
  await created.listen(0, '127.0.0.1');
  return created;
});
report(await app.getUrl(), { gauges: () => Promise.resolve(steps) });
