import type { Type } from '@nestjs/common';
import type { JsonSchema } from './handler-schema.js';

/** Holds the classes of one schema that contain themselves: each is a definition, which the others refer to. */
export class ClassDefinitions {
  /** Whether class-transformer chooses a class by a discriminator somewhere in the schema. */
  hasDiscriminators = false;
  /** Lists the classes whose schemas are being made, each a part of the one before it. */
  readonly #around: Type[] = [];
  readonly #names = new Map<Type, string>();
  readonly #definitions = new Map<string, JsonSchema>();

  /**
   * Returns the schema of a class, or a reference to it.
   *
   * @param make makes the schema, and asks for the classes that are parts of it
   */
  of(type: Type, make: () => JsonSchema): JsonSchema {
    if (this.#names.has(type) || this.#around.includes(type)) return { $ref: `#/$defs/${this.#nameOf(type)}` };
    this.#around.push(type);
    const json = make();
    this.#around.pop();
    const name = this.#names.get(type);
    if (name !== undefined) this.#definitions.set(name, json);
    // The root is no reference: some clients read only its own properties.
    if (this.#around.length > 0) return name === undefined ? json : { $ref: `#/$defs/${name}` };
    return this.#definitions.size > 0 ? { ...json, $defs: Object.fromEntries(this.#definitions) } : json;
  }

  /** Returns the name of a definition. Two classes may have the same name. */
  #nameOf(type: Type): string {
    const known = this.#names.get(type);
    if (known !== undefined) return known;
    const taken = [...this.#names.values()];
    const name = taken.includes(type.name) ? `${type.name}${taken.length}` : type.name;
    this.#names.set(type, name);
    return name;
  }
}
