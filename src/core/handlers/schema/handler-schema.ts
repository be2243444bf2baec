import type { Type } from '@nestjs/common';
import type { StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import type { McpArgumentProblem } from '../handlers.errors.js';

/**
 * A JSON Schema is a plain object. It goes over the wire as it is.
 *
 * @see https://json-schema.org/draft/2020-12
 * @internal
 */
export type JsonSchema = Readonly<Record<string, unknown>>;

/**
 * A schema describes the arguments or the result of a handler:
 *
 * - a Standard Schema that converts itself to JSON Schema: Zod from 4.2 on, ArkType, Valibot through
 *   `toStandardJsonSchema()` of `@valibot/to-json-schema`
 * - a JSON Schema
 * - a class whose properties have decorators of `class-validator`
 *
 * The root of arguments is an object. A schema is converted once, when the app starts.
 *
 * @see https://standardschema.dev
 * @publicApi
 */
export type McpHandlerSchema = StandardSchemaWithJSON | JsonSchema | Type;

/**
 * A schema describes the result of a tool: any JSON, also a list, a text or `null`. `[OrderDto]` is a list of what the class
 * describes.
 *
 * @internal
 */
export type McpResultSchema = McpHandlerSchema | readonly [McpHandlerSchema];

/**
 * Checks a value against a schema.
 *
 * @returns the value as the schema leaves it (defaults, coercion), or a promise of it
 * @throws McpArgumentsError for arguments, Error for results; or rejects with it
 */
export type Validate = (raw: unknown) => unknown;

/** Creates the error of a value that does not match: different for arguments and for results. */
export type Misfit = (problems: readonly McpArgumentProblem[]) => Error;

/** A schema as the endpoint uses it. */
export interface CompiledSchema {
  /** The schema as it goes over the wire; frozen. */
  readonly json: JsonSchema;
  /** Refuses arguments with too many values, too. */
  readonly validate: Validate;
  /** Names the fields of the checked value, where clients call them otherwise: those of a class. */
  readonly fields?: readonly string[] | undefined;
  /** Names the library of the schema, if a newer version of it would check large arguments within limits. */
  readonly outdated?: string | undefined;
}

/** Names the parts of a request in which Nest's decorators find arguments. */
export type RequestPart = 'params' | 'query' | 'body';

/** A parameter that takes arguments of the call. */
export interface ArgumentParam {
  readonly index: number;
  readonly part: RequestPart;
  /** The name in its part; `undefined`: the whole part. */
  readonly field: string | undefined;
  /** The type from the decorator metadata of TypeScript. */
  readonly type: unknown;
  readonly pipes: readonly unknown[];
  /** The schema of `@Body({ schema })`, on Nest 12. */
  readonly schema: unknown;
}

/** Says whether a schema describes arguments or results: with defaults, its JSON Schema differs. */
export type SchemaUse = 'input' | 'output';
