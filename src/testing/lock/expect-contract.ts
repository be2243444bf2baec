import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { INestApplication } from '@nestjs/common';
import { isObject } from '../../core/protocol/json-rpc.js';
import type { McpTestClientOptions } from '../kit/mcp-test-client.js';
import { canonical, jsonOf } from './canonical.js';
import { type Contract, KIND_NAMES, KINDS, servedContract } from './contract.js';
import { contractChanges, type EntryChanges } from './contract-diff.js';
import type { Severity } from './schema-diff.js';

/** Chooses the endpoint and the callers of {@link expectContract}. @publicApi */
export interface McpContractOptions {
  /**
   * The callers whose views are compared, by a name for each: a token, `undefined` for anonymous ones, or the options of a test
   * client.
   *
   * @default { anyone: undefined }
   */
  as?: Readonly<Record<string, string | undefined | McpTestClientOptions>>;
  /** The path of the endpoint. @default that of the app's only one */
  endpoint?: string;
}

/**
 * Compares what an endpoint lists, for each role, with a file in the repository: names, schemas, descriptions, hints and
 * scopes of tools, prompts, resources and templates. The message of the error is a page that says of each change whether it
 * breaks clients.
 *
 * ```ts
 * await expectContract(app, 'mcp.contract.json', { as: { admin: adminToken, guest: undefined } });
 * ```
 *
 * With `UPDATE_CONTRACT=1` in the environment the file is written. So is a missing one, except in CI (`CI`). A line on the console says
 * that a file was written.
 *
 * @param file a path relative to the working directory of the process, or a URL such as
 *   `new URL('../mcp.contract.json', import.meta.url)`
 * @returns `written` if the file was written, else `unchanged`
 * @throws Error (rejects) when the file is not what the endpoint serves, or cannot be read; for a role that is refused; a
 *   TypeError for roles or an endpoint that are none
 * @publicApi
 */
export async function expectContract(
  app: INestApplication,
  file: string | URL,
  { as = { anyone: undefined }, endpoint }: McpContractOptions = {},
): Promise<'written' | 'unchanged'> {
  const path = pathOf(file);
  assertRoles(as);
  const served = await servedContract(app, as, endpoint);
  const text = readIfPresent(path);
  if (isSet('UPDATE_CONTRACT')) {
    if (text !== undefined && isSame(text, served)) return 'unchanged';
    return write(path, served, text === undefined ? NEW : 'The contract was written anew, with UPDATE_CONTRACT=1:');
  }
  if (text === undefined) {
    if (!isSet('CI')) return write(path, served, NEW);
    const missing = `There is no contract at ${path}, and CI writes none. Run the test on your machine, and commit the file.`;
    throw new Error(missing);
  }
  const known = parsed(text, path);
  if (jsonOf(known) === jsonOf(served)) return 'unchanged';
  throw new Error(pageOf(contractChanges(known, served), relative(process.cwd(), path)));
}

function isSet(variable: string): boolean {
  return !['', '0', 'false'].includes(process.env[variable] ?? '');
}

function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function isSame(text: string, served: Contract): boolean {
  try {
    return jsonOf(JSON.parse(text)) === jsonOf(served);
  } catch {
    return false;
  }
}

/** Returns the absolute path of a file. `import.meta.resolve()` returns a URL as a text. */
function pathOf(file: string | URL): string {
  return resolve(String(file).startsWith('file:') ? fileURLToPath(file) : (file as string));
}

/** @throws TypeError for a token in the place of the roles, which `as` of `toolRouting()` takes */
function assertRoles(as: unknown): void {
  const isRole = (role: unknown): boolean => role === undefined || typeof role === 'string' || isObject(role);
  if (isObject(as) && Object.values(as).every(isRole)) return;
  const text =
    'The option "as" has a name for each caller, whose value is a token, undefined for an anonymous caller, or the options of a test client, such as { admin: token, guest: undefined }.';
  throw new TypeError(text);
}

/** Parses the file. @throws Error for one that is no contract */
function parsed(text: string, path: string): Contract {
  const renew = 'Run the test with UPDATE_CONTRACT=1 to write it anew.';
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    const reason = `The contract ${path} is not JSON, as after a merge with conflicts: ${(cause as Error).message}. ${renew}`;
    throw new Error(reason, { cause });
  }
  if (isContract(value)) return value;
  throw new Error(`The file ${path} is not a contract of this version ("contract": 1). ${renew}`);
}

function isContract(value: unknown): value is Contract {
  if (!isObject(value) || value['contract'] !== 1 || !isObject(value['roles'])) return false;
  const views = Object.values(value['roles']);
  const kinds = KIND_NAMES.map((kind) => value[kind] ?? {});
  return (
    views.every((view) => isObject(view) && Object.values(view).every(Array.isArray)) &&
    kinds.every((entries) => isObject(entries) && Object.values(entries).every(isObject))
  );
}

const NEW = 'There was no contract, so this one was written, which later runs compare with:';

/** @param event says in the console why it was written */
function write(path: string, { contract, roles, ...kinds }: Contract, event: string): 'written' {
  // The keys of objects are in alphabetical order; the views of the roles come first, where a reviewer looks.
  const ordered = { contract, roles: canonical(roles), ...(canonical(kinds) as object) };
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, `${JSON.stringify(ordered, undefined, 2)}\n`);
  // In modules of @nestjs/testing the logger of Nest writes errors alone.
  console.warn(`${event} ${relative(process.cwd(), path)} (${contentOf(kinds, roles)}). Commit it.`);
  return 'written';
}

/** Counts what is in a contract, such as `2 tools, 1 prompt, 1 role`. */
function contentOf(kinds: Omit<Contract, 'contract' | 'roles'>, roles: Contract['roles']): string {
  const counts = KIND_NAMES.map((kind) => [Object.keys(kinds[kind] ?? {}).length, KINDS[kind].noun] as const);
  return [...counts.filter(([count]) => count > 0), [Object.keys(roles).length, 'role'] as const]
    .map(([count, noun]) => `${count} ${noun}${count === 1 ? '' : 's'}`)
    .join(', ');
}

const TITLES: Readonly<Record<Severity, string>> = {
  breaking: 'Breaking: clients that know the old contract can fail',
  look: 'Changed, look at it',
  additive: 'Additive',
};

function pageOf(subjects: readonly EntryChanges[], file: string): string {
  const all = subjects.flatMap(({ changes }) => changes);
  const severities = Object.keys(TITLES) as Severity[];
  const counts = severities.map((severity) => {
    const count = all.filter((change) => change.severity === severity).length;
    return `${count} ${severity === 'look' ? 'to look at' : severity}`;
  });
  const sections = severities.flatMap((severity) => {
    const lines = subjects.flatMap(({ subject, changes }) => {
      const own = changes.filter((change) => change.severity === severity);
      return own.length === 0 ? [] : [`  ${subject}`, ...own.map(({ text }) => `    - ${text}`)];
    });
    return lines.length === 0 ? [] : ['', TITLES[severity], ...lines];
  });
  const how = `If this is meant, run the test with UPDATE_CONTRACT=1, and commit ${file} with the change.`;
  return [`The endpoint is not what ${file} says: ${counts.join(', ')}.`, ...sections, '', how].join('\n');
}
