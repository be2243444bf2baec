import type { JsonSchemaType, jsonSchemaValidator, JsonSchemaValidator } from '@modelcontextprotocol/server';
import { AjvJsonSchemaValidator } from '../wire/spec.js';

/** Schemas that are kept compiled. Most handlers ask with a handful; one that builds its schema per call has many. */
const MAX_COMPILED = 500;

/**
 * Compiles JSON Schemas once: by object, and by text for those that a handler writes down anew each time.
 *
 * Ajv keeps what it has compiled for ever. So when there are too many, the compiler is given up with all it holds.
 */
export class RequestedSchemas implements jsonSchemaValidator {
  #compiler = new AjvJsonSchemaValidator();
  #byObject = new WeakMap<object, JsonSchemaValidator<unknown>>();
  readonly #byText = new Map<string, JsonSchemaValidator<unknown>>();

  constructor(private readonly maxCompiled = MAX_COMPILED) {}

  /** Schemas that are kept. */
  get size(): number {
    return this.#byText.size;
  }

  /** @throws Error when it is no schema */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    let validator = this.#byObject.get(schema);
    if (!validator) {
      validator = this.#ofText(JSON.stringify(schema));
      this.#byObject.set(schema, validator);
    }
    return validator as JsonSchemaValidator<T>;
  }

  #ofText(text: string): JsonSchemaValidator<unknown> {
    let validator = this.#byText.get(text);
    if (!validator) {
      if (this.#byText.size >= this.maxCompiled) this.#startOver();
      // A copy: whoever changes its schema later has another one. By its $id, Ajv would take it for one it knows.
      const { $id: _, ...schema } = JSON.parse(text) as JsonSchemaType;
      validator = this.#compiler.getValidator(schema);
      this.#byText.set(text, validator);
    }
    return validator;
  }

  #startOver(): void {
    this.#byText.clear();
    this.#byObject = new WeakMap();
    this.#compiler = new AjvJsonSchemaValidator();
  }
}
