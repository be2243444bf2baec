import { TwoGenerations } from '../../common/two-generations.js';
import { withObjectType } from '../../protocol/structured-content.js';
import type { CompiledSchema, JsonSchema, McpResultSchema, SchemaUse, Validate } from './handler-schema.js';
import { listedSchema } from './listed-schema.js';
import { frozenJson, limited, SchemaCompiler } from './schema-compiler.js';

/** A generation has so many compiled schemas; a compiled schema takes some 10 kB. */
const GENERATION = 500;

/**
 * Compiles the JSON Schemas of sources, each text once. Of schemas that were not used for long only the text is kept: the next
 * call compiles it again. Ajv keeps what it has compiled, so a compiler is used for a generation.
 */
export class SharedSchemas extends SchemaCompiler {
  readonly #compiled = new TwoGenerations<Validate>(GENERATION);
  #compiler = new SchemaCompiler();
  #count = 0;

  override compile(
    schema: McpResultSchema,
    use: SchemaUse,
    origin: string,
    { maxValues = Infinity }: { maxValues?: number | undefined } = {},
  ): CompiledSchema {
    const json = frozenJson(schema as JsonSchema);
    const validate = (): Validate => this.#validateBy(json, use, origin);
    validate();
    const listed = listedSchema(json, { use, written: true });
    return {
      json: frozenJson(use === 'output' ? withObjectType(listed) : listed),
      validate: limited((raw) => validate()(raw), maxValues),
    };
  }

  #validateBy(json: JsonSchema, use: SchemaUse, origin: string): Validate {
    const key = `${use} ${JSON.stringify(json)}`;
    const known = this.#compiled.get(key);
    if (known) return known;
    if (++this.#count % GENERATION === 0) this.#compiler = new SchemaCompiler();
    const { validate } = this.#compiler.compile(json, use, origin);
    this.#compiled.set(key, validate);
    return validate;
  }
}
