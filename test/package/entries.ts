import { ok } from 'node:assert/strict';
import * as index from 'nestjs-mcp-streamable';
import * as audit from 'nestjs-mcp-streamable/audit';
import * as auth from 'nestjs-mcp-streamable/auth';
import * as client from 'nestjs-mcp-streamable/client';
import * as decorators from 'nestjs-mcp-streamable/decorators';
import * as live from 'nestjs-mcp-streamable/live';
import * as otel from 'nestjs-mcp-streamable/otel';
import * as plugins from 'nestjs-mcp-streamable/plugins';
import * as prometheus from 'nestjs-mcp-streamable/prometheus';
import * as redis from 'nestjs-mcp-streamable/redis';
import * as server from 'nestjs-mcp-streamable/server';
import * as skills from 'nestjs-mcp-streamable/skills';
import * as standalone from 'nestjs-mcp-streamable/standalone';
import * as stdio from 'nestjs-mcp-streamable/stdio';
import * as stores from 'nestjs-mcp-streamable/stores';
import * as tasks from 'nestjs-mcp-streamable/tasks';
import * as testing from 'nestjs-mcp-streamable/testing';

/** Every entry that `exports` names, under that name: `scripts/check-compat.mjs` compares. */
const entries: Readonly<Record<string, object>> = {
  '.': index,
  './audit': audit,
  './auth': auth,
  './client': client,
  './decorators': decorators,
  './live': live,
  './otel': otel,
  './plugins': plugins,
  './prometheus': prometheus,
  './redis': redis,
  './server': server,
  './skills': skills,
  './standalone': standalone,
  './stdio': stdio,
  './stores': stores,
  './tasks': tasks,
  './testing': testing,
};

/** That each entry of the package loads and exports something. @returns their names */
export function importEntries(): string[] {
  for (const [name, entry] of Object.entries(entries)) ok(Object.keys(entry).length > 0, `entry "${name}" is empty`);
  return Object.keys(entries);
}
