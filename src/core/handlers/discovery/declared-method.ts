import type { Type } from '@nestjs/common';
import type { ApplicationConfig } from '@nestjs/core';
import { isObject } from '../../protocol/json-rpc.js';
import type { PromptOptions, ToolOptions } from '../decorators/handler-options.js';
import { McpHandlerDefinitionError, namesText } from '../handlers.errors.js';
import {
  classOptionsOf,
  isConverted,
  isSerialized,
  isValidated,
  type ProviderWrapper,
  serializeOptionsOf,
  serializerOptionsOf,
} from '../invocation/enhancers.js';
import type { Method } from '../invocation/invocation.js';
import type { MethodRoute, MethodRoutes, ProviderMethod } from '../invocation/method-routes.js';
import { layoutOf, methodOf, type ParamLayout } from '../invocation/params.js';
import { type ArgumentJson, argumentsMadeBy, argumentsOfJson, assertTypes } from '../schema/argument-types.js';
import type { ArgumentParam, CompiledSchema, JsonSchema } from '../schema/handler-schema.js';
import { isClass } from '../schema/pipe-schema.js';
import { type ClassOptions, MAX_UNSTOPPED_VALUES, type SchemaCompiler } from '../schema/schema-compiler.js';
import type { DeclaringProvider } from './app-scan.js';

/** The schema of a text. */
export const TEXT: JsonSchema = { type: 'string' };

/**
 * A method with decorators of this package: its parameters, the route that it may be, and the schema of its arguments. Parameters and
 * route are read when they are first needed, so that mistakes are found in the order of handlers.
 */
export class DeclaredMethod implements ProviderMethod {
  readonly wrapper: ProviderWrapper;
  readonly host: Type<object>;
  readonly method: Method;
  /** `OrderTools.find (OrdersModule)` */
  readonly origin: string;
  #route: { readonly is: MethodRoute | undefined } | undefined;
  #layout: ParamLayout | undefined;

  constructor(
    { wrapper, type, module }: DeclaringProvider,
    readonly methodName: string,
    private readonly config: ApplicationConfig,
    private readonly routes: Pick<MethodRoutes, 'routeOf'>,
  ) {
    this.wrapper = wrapper;
    this.host = type as Type<object>;
    this.method = methodOf(type.prototype, methodName)!;
    this.origin = `${type.name}.${methodName} (${module})`;
  }

  get route(): MethodRoute | undefined {
    this.#route ??= { is: this.routes.routeOf(this) };
    return this.#route.is;
  }

  get layout(): ParamLayout {
    return (this.#layout ??= layoutOf(this.host, this.methodName, this.origin, this.route?.params));
  }

  /** Returns what pipes do to the class of the arguments. Global pipes count that were set before the app was initialized. */
  get classOptions(): ClassOptions {
    const wholes = this.layout.args.filter(({ field }) => field === undefined);
    const atParams = wholes.flatMap(({ pipes }) => pipes);
    return classOptionsOf(this.config, this.host, this.method, atParams);
  }

  /** Returns how the class of the result is converted. */
  get resultOptions(): ClassOptions {
    const { config, host, method } = this;
    const transform = { ...serializerOptionsOf(config, host, method), ...serializeOptionsOf(host, method) };
    return { transform, serialized: () => isSerialized(config, host, method) };
  }

  /** Returns how many values arguments may have that a `ValidationPipe` checks: it looks for all problems. */
  get maxValues(): number | undefined {
    const { config, host, method } = this;
    const isPiped = this.layout.args.some(
      ({ type, pipes }) => isClass(type) && isValidated(config, host, method, pipes),
    );
    return isPiped ? MAX_UNSTOPPED_VALUES : undefined;
  }

  /**
   * Adds the schema of the arguments to options: the given one, or the class of the parameter that takes them.
   *
   * @throws McpHandlerDefinitionError when neither is there
   */
  withSchema<Options extends Pick<ToolOptions, 'inputSchema'> | PromptOptions>(
    decorator: 'Tool' | 'Prompt' | 'McpMethod',
    options: Options,
    compiler: SchemaCompiler,
  ): Options {
    const { origin, classOptions: classes } = this;
    const { args, decorated } = this.layout;
    const given = options.inputSchema;
    const [option, anything] =
      decorator === 'McpMethod'
        ? ['a schema', "{ type: 'object' }"]
        : ['an "inputSchema"', "inputSchema: { type: 'object' }"];
    const advice = `Give @${decorator}() ${option} with all arguments.`;
    // A parameter whose name the schema lacks would silently be undefined.
    const named = decorator === 'McpMethod' ? 'schema' : 'inputSchema';
    if (given) {
      assertNamed(args, compiler.compile(given, 'input', origin, { option: named, classes }), origin, advice);
      this.#assertTypes(argumentsMadeBy(given));
    }
    const listed = 'arguments' in options ? options.arguments : undefined;
    if (listed) this.assertKnown(Object.fromEntries(listed.map(({ name }) => [name, TEXT])), advice);
    if (given || listed) return options;
    const refusal = (index: number, why: string, cause?: unknown): McpHandlerDefinitionError =>
      new McpHandlerDefinitionError(
        origin,
        `its parameter ${index} (counted from 0) takes the arguments of the call, but there is no schema for them, and the parameter type cannot replace it: ${why}. Give @${decorator}() ${option}, or type a parameter that takes all arguments with a class whose properties have decorators of class-validator. To accept any arguments: ${anything}.`,
        { cause },
      );
    const classed = args
      .filter(({ field, type }) => field === undefined && isClass(type))
      .toSorted((one, other) => one.index - other.index);
    const [typed] = classed;
    if (!typed) {
      const [untyped] = args;
      if (!untyped || !decorated) return options;
      throw refusal(
        untyped.index,
        'its decorator metadata names no class. The type may not be a class, may be imported as a type, or the build (esbuild, tsx) emits no decorator metadata',
      );
    }
    const inputSchema = typed.type as Type;
    const second = classed.find(({ type }) => type !== inputSchema);
    if (second) {
      const classes = `${inputSchema.name} and ${(second.type as Type).name}`;
      const reason = `its parameters ${typed.index} and ${second.index} (counted from 0) are all arguments, of the classes ${classes}, and one class is no schema for both. ${advice}`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    let compiled: CompiledSchema;
    try {
      compiled = compiler.compile(inputSchema, 'input', origin, { classes });
    } catch (error) {
      throw refusal(typed.index, ((error as Error).cause as Error).message.replace(/\.$/, ''), error);
    }
    assertNamed(args, compiled, origin, advice);
    this.#assertTypes(argumentsMadeBy(inputSchema));
    return { ...options, inputSchema };
  }

  /**
   * Checks parameters by the kind of handler.
   *
   * @throws McpHandlerDefinitionError for a parameter that is none of its arguments, or has another type
   */
  assertKnown(properties: Readonly<Record<string, JsonSchema>>, advice: string): void {
    const json = { type: 'object', properties };
    assertNamed(this.layout.args, { json }, this.origin, advice);
    this.#assertTypes(argumentsOfJson(json));
  }

  /** @throws McpHandlerDefinitionError for a parameter of a type that its argument does not have */
  #assertTypes(argument: ArgumentJson): void {
    const { config, host, method, origin } = this;
    // A ValidationPipe converts what comes from a URL.
    const args = this.layout.args.filter(({ part }) => part === 'body');
    assertTypes(args, argument, ({ pipes }) => isConverted(config, host, method, pipes), origin);
  }
}

/**
 * Checks parameters by their names.
 *
 * @throws McpHandlerDefinitionError for a parameter that is an argument which a closed schema does not have
 */
function assertNamed(
  args: readonly ArgumentParam[],
  { json, fields }: Pick<CompiledSchema, 'json' | 'fields'>,
  origin: string,
  advice: string,
): void {
  const { properties, additionalProperties = false } = fields ? propertiesNamed(fields) : json;
  const open =
    additionalProperties !== false ||
    ['anyOf', 'oneOf', 'allOf', 'patternProperties', '$ref'].some((key) => key in json);
  if (open || !isObject(properties)) return;
  const unknown = args.find(({ field }) => field !== undefined && !Object.hasOwn(properties, field));
  if (!unknown) return;
  const reason = `its parameter ${unknown.index} (counted from 0) is the argument "${unknown.field}", which is not in its schema. ${namesText(Object.keys(properties))} ${advice}`;
  throw new McpHandlerDefinitionError(origin, reason);
}

const propertiesNamed = (names: readonly string[]): JsonSchema => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, {}])),
});
