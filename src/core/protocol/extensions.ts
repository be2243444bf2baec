import { isObject, isRequest, type JsonRpcMessage } from './json-rpc.js';
import { METHODS } from './methods.js';

/** The settings of an extension that a client or server declares: an object, mostly empty. @internal */
export type ExtensionSettings = Readonly<Record<string, unknown>>;

/** The id of the extension for tasks (SEP-2663). @internal */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks';

/**
 * Tells whether a method is about a task that exists: such a request is served also while its caller may begin no further call, or
 * the caller could neither answer nor cancel the tasks that take its places (E14).
 *
 * @internal
 */
export function isAboutTask(method: string | undefined): boolean {
  return method !== undefined && METHODS.get(method)?.mirrored === 'taskId';
}

/** Tells whether a message begins work, for which there must be a place (E14). @internal */
export function beginsCall(message: JsonRpcMessage): boolean {
  return isRequest(message) && !isAboutTask(message.method);
}

/** Matches labels separated by dots, as of a domain name that is reversed, then a name. */
const EXTENSION_ID =
  /^[A-Za-z](?:[A-Za-z\d-]*[A-Za-z\d])?(?:\.[A-Za-z](?:[A-Za-z\d-]*[A-Za-z\d])?)*\/[A-Za-z\d](?:[\w.-]*[A-Za-z\d])?$/;

/**
 * Tells whether a text is the id of an extension: `vendor-prefix/name`, such as `com.example/search`.
 *
 * @see https://modelcontextprotocol.io/seps/2133-extensions
 * @internal
 */
export function isExtensionId(id: unknown): id is string {
  return typeof id === 'string' && EXTENSION_ID.test(id);
}

/**
 * Returns the settings that a client declared for an extension.
 *
 * @returns its settings; `undefined` when it did not declare the extension
 * @internal
 */
export function extensionOf(capabilities: ExtensionSettings, id: string): ExtensionSettings | undefined {
  const extensions = Object.hasOwn(capabilities, 'extensions') ? capabilities['extensions'] : undefined;
  const settings = isObject(extensions) && Object.hasOwn(extensions, id) ? extensions[id] : undefined;
  return isObject(settings) ? settings : undefined;
}

/** Matches a method of an extension: `prefix/name`, the prefix being the author's. */
const METHOD_NAME = /^[A-Za-z][\w.-]*(?:\/[\w.-]+)+$/;

/** First parts of methods that the specification, or an official extension of it, has or may come to have. */
const RESERVED_PREFIXES: readonly string[] = [
  'client',
  'completion',
  'elicitation',
  'logging',
  'mcp',
  'notifications',
  'prompts',
  'resources',
  'roots',
  'sampling',
  'server',
  'skills',
  'subscriptions',
  'tasks',
  'tools',
  'ui',
];

/**
 * Returns the reason why an app cannot serve a method: the name is, or may become, one of the specification.
 *
 * @returns `undefined` when it can
 * @internal
 */
export function faultOfMethodName(method: unknown): string | undefined {
  if (typeof method !== 'string' || !METHOD_NAME.test(method)) {
    return 'a method of an app is called "prefix/name", such as "acme/search": letters, digits, "_", "-" and "."';
  }
  const prefix = method.slice(0, method.indexOf('/')).toLowerCase();
  // JSON-RPC 2.0 §4 reserves "rpc."; the organization of MCP has a name of its own.
  const reserved = RESERVED_PREFIXES.includes(prefix) || /^rpc\.|modelcontextprotocol/.test(prefix);
  return reserved ? `"${prefix}/" belongs to the specification; use a prefix of your own, such as "acme/"` : undefined;
}

/** The `node:diagnostics_channel` on which handlers report while their calls are tasks. The testing kit listens. */
export const TASK_REPORTS_CHANNEL = 'nestjs-mcp-streamable:task-reports';

/** A message on that channel. */
export interface TaskReport {
  readonly taskId: string;
  /** The report has progress, or a status message alone. */
  readonly report: { progress?: number; total?: number | undefined; message?: string | undefined };
}
