import type { InputRequiredResult, StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import type { Type } from '@nestjs/common';
import type { Observable } from 'rxjs';
import type { McpContext } from '../../calls/mcp-context.js';
import type { McpStructured, WholeToolResult } from '../results/returned-as.js';
import type { ToolLog, ToolProgress } from '../results/tool-event.js';

/*
 * # What a schema says about the types of a handler
 *
 * Decorators of methods see the type of the method, and not what decorates its parameters. So the check of parameters refuses
 * only what cannot be right: an object that neither all arguments nor one of them fits, in a method none of whose parameters
 * takes them. A pipe may make anything of an argument; `schema as McpHandlerSchema` turns the check off.
 */

/** TypeScript knows the types of these schemas: a Standard Schema, or a class. */
export type TypedSchema = StandardSchemaWithJSON | Type;

/** Inference of the type on one side of a schema; `unknown` for a JSON Schema. */
type TypeOf<Schema, Side extends 'input' | 'output'> = Schema extends {
  readonly '~standard': { readonly types?: infer Types };
}
  ? NonNullable<Types> extends Readonly<Record<Side, infer Value>>
    ? Value
    : unknown
  : Schema extends abstract new (...args: never[]) => infer Instance
    ? Instance
    : unknown;

/**
 * The arguments that a handler gets are what the schema makes of those of the client. A JSON Schema has no type.
 *
 * @internal
 */
export type ArgumentsOf<Schema> = TypeOf<Schema, 'output'>;

/**
 * A handler with an output schema returns this type, before the schema has checked it. A JSON Schema has no type; a list of one
 * schema describes a list.
 *
 * @internal
 */
export type ResultOf<Schema> = Schema extends readonly [infer Item] ? TypeOf<Item, 'input'>[] : TypeOf<Schema, 'input'>;

/**
 * A handler returns a value, or the whole result of the protocol in its place; alone, in a promise, or as the last of
 * several parts.
 */
type Returned<Value> = Part<Value> | Promise<Part<Value>>;
type Part<Value> = Whole<Value> | Observable<Whole<Value> | Report> | AsyncIterable<Whole<Value> | Report>;
type Whole<Value> = Value | McpStructured<Value> | WholeToolResult | QuestionsResult;
/** It is an interface, because the compiler shows its name. */
interface QuestionsResult extends InputRequiredResult {}
type Report = ToolProgress | ToolLog;

type Primitive = string | number | bigint | boolean | symbol | null | undefined;

/** Decides whether an object is data alone: its values are no functions, and its keys are known. */
type IsData<Value> = Value extends Primitive | McpContext | readonly unknown[]
  ? false
  : string extends keyof Value
    ? false
    : [Extract<Value[keyof Value], (...args: never[]) => unknown>] extends [never]
      ? true
      : false;

type Fit<Parameter, Args> = unknown extends Parameter
  ? 'fits'
  : [Args] extends [Parameter]
    ? 'fits'
    : [NonNullable<Parameter>] extends [Primitive]
      ? 'fits'
      : true extends {
            [Key in keyof Args]: [Exclude<Args[Key], undefined>] extends [Parameter] ? true : false;
          }[keyof Args]
        ? 'fits'
        : IsData<NonNullable<Parameter>> extends true
          ? 'misfit'
          : 'other';

type Fits<Parameters extends readonly unknown[], Args> = {
  [Index in keyof Parameters]: Fit<Parameters[Index], Args>;
}[number];

/**
 * Resolves to `unknown` for a method that can take the arguments; otherwise to a text, which no descriptor is: the
 * compiler shows it.
 */
type FitsArguments<Method, Args> = unknown extends Args
  ? unknown
  : [keyof Args] extends [never]
    ? unknown
    : Method extends (...args: infer Parameters) => unknown
      ? 'fits' extends Fits<Parameters, Args>
        ? unknown
        : 'misfit' extends Fits<Parameters, Args>
          ? 'No parameter of this method takes the arguments that the schema describes.'
          : unknown
      : unknown;

/**
 * A decorator for methods that take the arguments of one schema, and return what another one describes. It is no
 * decorator of classes: the type `ClassDecorator` only lets `applyDecorators()` take it.
 *
 * @publicApi
 */
export type McpHandlerDecorator<Input, Output> = ClassDecorator &
  (<Method extends (...args: never[]) => Returned<ResultOf<Output>>>(
    target: object,
    key: string | symbol,
    descriptor: TypedPropertyDescriptor<Method> & FitsArguments<Method, ArgumentsOf<Input>>,
  ) => void);

/**
 * Resolves to `unknown` for a method with a parameter that a question can be made of; otherwise to a text. Only where all
 * parameters are data, none of which has to do with the question, it is sure that none of them is an argument in it.
 */
type FitsMessage<Method, Args> = unknown extends Args
  ? unknown
  : Method extends (...args: infer Parameters) => unknown
    ? [Makes<Parameters, Args>] extends [never]
      ? unknown
      : [Makes<Parameters, Args>] extends ['misfit']
        ? 'No parameter of this method has what the function of @Confirm() takes.'
        : unknown
    : unknown;

type Makes<Parameters extends readonly unknown[], Args> = {
  [Index in keyof Parameters]: [Parameters[Index]] extends [Args]
    ? 'fits'
    : Parameters[Index] extends McpContext
      ? never
      : Fit<Parameters[Index], Args>;
}[number];

/**
 * A decorator for methods whose arguments are, or contain, those that a question is made of.
 *
 * @internal
 */
export type McpConfirmDecorator<Args> = <Method>(
  target: object,
  key: string | symbol,
  descriptor: TypedPropertyDescriptor<Method> & FitsMessage<Method, Args>,
) => void;
