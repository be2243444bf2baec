import type { CallToolResult } from '@modelcontextprotocol/server';
import type { McpContent } from './files.js';

/**
 * Interceptors such as `ClassSerializerInterceptor` copy a value field by field. JSON has neither the field nor its value, a
 * symbol, so no data can have it.
 */
const MARK = 'nestjs-mcp-streamable:returned-as';
const RESULT = Symbol('result');
const DATA = Symbol('data');

/** The result of a tool, whose content may have files. @internal */
export interface WholeToolResult extends Omit<CallToolResult, 'content'> {
  content: McpContent[];
}

declare const of: unique symbol;

/** What {@link structured} returns. @publicApi */
export interface McpStructured<Value> {
  readonly [of]: Value;
}

/**
 * Says that an object is the result of a tool as the protocol has it: `{ content, structuredContent, isError, _meta }`. It is
 * necessary only where the endpoint would take the object for data.
 *
 * ```ts
 * return toolResult({ content: [], total: 0 });
 * ```
 *
 * @returns a copy of the result, for the endpoint
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
 * @publicApi
 */
export function toolResult<Result extends { content: McpContent[] }>(result: Result): Result & WholeToolResult {
  return { ...result, [MARK]: RESULT };
}

/**
 * Says that a value is data, also if it looks like a result or like content: an entity with a column `content` in a tool, or with a
 * column `text` in a resource. A tool sends it as structured content, and a resource as JSON.
 *
 * ```ts
 * return structured(await this.notes.find(id));
 * ```
 *
 * From a route it is sent as the value itself, unless an interceptor copies it.
 *
 * @publicApi
 */
export function structured<Value>(value: Value): McpStructured<Value> {
  const marked = { content: [], structuredContent: value, [MARK]: DATA };
  return Object.defineProperty(marked, 'toJSON', { value: () => value }) as unknown as McpStructured<Value>;
}

interface Marked {
  readonly [MARK]?: unknown;
  readonly structuredContent?: unknown;
}

/** Returns a result that {@link toolResult} has made; `undefined` for any other value. */
export function resultIn(value: unknown): object | undefined {
  if ((value as Marked | null | undefined)?.[MARK] !== RESULT) return undefined;
  const { [MARK]: _, ...result } = value as Marked;
  return result;
}

/** Returns the value of {@link structured}; `undefined` for any other one. */
export function dataIn(value: unknown): { readonly value: unknown } | undefined {
  const marked = value as Marked | null | undefined;
  return marked?.[MARK] === DATA ? { value: marked.structuredContent } : undefined;
}

/** Returns whether a class made an object, as it makes entities; `false` for an object of another realm, too. */
export function isOfClass(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype !== null && Object.getPrototypeOf(prototype) !== null;
}

/** Returns the fields of an object that are not among these, and that JSON has. */
export function othersThan(fields: readonly string[], value: object): string[] {
  const isSent = (field: unknown): boolean => field !== undefined && typeof field !== 'function';
  return Object.keys(value).filter((name) => !fields.includes(name) && isSent((value as SomeObject)[name]));
}

type SomeObject = Readonly<Record<string, unknown>>;
