import 'reflect-metadata';
import { readFileSync, writeFileSync } from 'node:fs';
import { ValidationPipe } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { OtherHandlers, SchemaTools, WideController } from './tools.js';

/** What one measurement took. */
export interface Cost {
  readonly cpuMs: number;
  /** The most memory above that of the idle process; 0 where the system does not tell it. */
  readonly mebibytes: number;
}

const STATUS = '/proc/self/status';
const isLinux = process.platform === 'linux';

/** Returns the resident memory, in MiB. @param peak the most since it was reset */
function resident(peak: boolean): number {
  if (!isLinux) return 0;
  const [, kibibytes] = new RegExp(`${peak ? 'VmHWM' : 'VmRSS'}:\\s+(\\d+)`).exec(readFileSync(STATUS, 'utf8'))!;
  return Number(kibibytes) / 1024;
}

class NodeModule {}

/** An app with the default options in a process of its own, which measures itself from one message to the next. */
const app = await NestFactory.create(
  {
    module: NodeModule,
    imports: [McpStreamableModule.forRoot({ serverInfo: { name: 'node', version: '1.0.0' } })],
    providers: [SchemaTools, OtherHandlers],
    controllers: [WideController],
  },
  new FastifyAdapter(),
  { logger: false },
);
app.useGlobalPipes(new ValidationPipe());
await app.listen(0, '127.0.0.1');

let [cpu, idle] = [process.cpuUsage(), 0];
process.on('message', (what: 'begin' | 'end') => {
  if (what === 'begin') {
    globalThis.gc!();
    // Resets the peak.
    if (isLinux) writeFileSync('/proc/self/clear_refs', '5');
    idle = resident(false);
    cpu = process.cpuUsage();
    process.send!('begun');
    return;
  }
  const { user, system } = process.cpuUsage(cpu);
  const cost: Cost = { cpuMs: (user + system) / 1_000, mebibytes: resident(true) - idle };
  process.send!(cost);
});
process.on('disconnect', () => process.exit());
process.send!(await app.getUrl());
