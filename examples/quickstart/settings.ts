import { statSync } from 'node:fs';
import { resolve } from 'node:path';

/** What the environment decides. */
export interface Settings {
  readonly port: number;
  readonly adapter: 'express' | 'fastify';
  /** The folder whose Markdown files are served. */
  readonly docsDir: string;
}

/** A variable of the environment has a value that cannot be used. */
export class SettingsError extends Error {}

/** @throws SettingsError */
export function readSettings({
  PORT = '3000',
  ADAPTER = 'express',
  DOCS_DIR = '.',
}: NodeJS.ProcessEnv): Settings {
  const port = Number(PORT);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) {
    throw new SettingsError(`PORT is "${PORT}"; it must be a number from 0 to 65535.`);
  }
  if (ADAPTER !== 'express' && ADAPTER !== 'fastify') {
    throw new SettingsError(
      `ADAPTER is "${ADAPTER}"; it must be "express" or "fastify".`,
    );
  }
  const docsDir = resolve(DOCS_DIR);
  if (!statSync(docsDir, { throwIfNoEntry: false })?.isDirectory()) {
    throw new SettingsError(
      `DOCS_DIR is "${DOCS_DIR}", and there is no folder "${docsDir}".`,
    );
  }
  return { port, adapter: ADAPTER, docsDir };
}
