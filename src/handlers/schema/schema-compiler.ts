import type { Type } from '@nestjs/common';
import type { jsonSchemaValidator, StandardSchemaWithJSON } from '@modelcontextprotocol/server';
import { AjvJsonSchemaValidator } from '../../wire/spec.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import { ArgumentsError } from './arguments.error.js';
import { loadClassPackages } from './class-packages.js';
import { jsonOfClass, validateClass } from './class-schema.js';
import { frozenJson } from './frozen-json.js';
import type { CompiledSchema, HandlerSchema, JsonSchema, Misfit, SchemaUse } from './handler-schema.js';
import { validatePlain } from './plain-json-schema.js';
import { isStandardSchema, jsonOfStandard, validateStandard } from './standard-schema.js';

/** Whose schema it is, for messages. */
export interface SchemaPlace {
  /** The handler. */
  readonly origin: string;
  /** The option that holds the schema: `inputSchema`. */
  readonly option: string;
}

const MISFITS: Readonly<Record<SchemaUse, Misfit>> = {
  input: (problems) => new ArgumentsError(problems),
  output: (problems) => new Error(handlerMessages.invalidResult(problems)),
};

/**
 * Makes of the schemas of handlers what is needed when they are listed and called: once, so that neither converts
 * anything, and so that one that does not work is found before it breaks a whole list.
 *
 * The engine behind plain JSON Schemas keeps what it has compiled. So what comes and goes at run time gets a compiler of
 * its own, which goes with it.
 */
export class SchemaCompiler {
  #shared: jsonSchemaValidator | undefined;

  /** @throws HandlerDefinitionError that says why the schema cannot be used */
  compile(schema: HandlerSchema, use: SchemaUse, { origin, option }: SchemaPlace): CompiledSchema {
    try {
      const { json, validate } = this.#convert(schema, use);
      return { json: frozenJson(json), validate };
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new HandlerDefinitionError(origin, handlerMessages.unsuitableSchema(option, reason), { cause: error });
    }
  }

  #convert(schema: unknown, use: SchemaUse): CompiledSchema {
    const misfit = MISFITS[use];
    if (isStandardSchema(schema)) {
      const json = objectRoot(jsonOfStandard(schema, use), { stamp: true });
      return { json, validate: validateStandard(schema as StandardSchemaWithJSON, misfit) };
    }
    if (typeof schema === 'function') {
      const packages = loadClassPackages();
      const json = jsonOfClass(schema as Type, packages);
      return { json, validate: validateClass(schema as Type, packages, use, misfit) };
    }
    if (typeof schema !== 'object' || schema === null) throw new Error(handlerMessages.notASchema(schema));
    return this.#plain(schema as JsonSchema, misfit);
  }

  #plain(schema: JsonSchema, misfit: Misfit): CompiledSchema {
    if (Object.values(schema).some((part) => isStandardSchema(part))) throw new Error(handlerMessages.shape());
    const json = objectRoot(frozenJson(schema), { stamp: false });
    return { json, validate: validatePlain(json, this.#validatorFor(json), misfit) };
  }

  /** Two schemas with the same `$id` would be one for the engine: it knows the second by the first. */
  #validatorFor(schema: JsonSchema): jsonSchemaValidator {
    if (JSON.stringify(schema).includes('"$id"')) return new AjvJsonSchemaValidator();
    return (this.#shared ??= new AjvJsonSchemaValidator());
  }
}

/**
 * Arguments and structured results are objects.
 *
 * @param stamp whether a root that says nothing of its type is made to say it: unions of objects do not
 * @throws Error
 */
function objectRoot(json: JsonSchema, { stamp }: { stamp: boolean }): JsonSchema {
  if (json.type === 'object') return json;
  if (json.type === undefined && stamp) return { type: 'object', ...json };
  throw new Error(handlerMessages.notAnObject(json.type));
}
