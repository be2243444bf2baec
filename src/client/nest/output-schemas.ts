import { createContext, Script } from 'node:vm';
import type {
  Client,
  JsonSchemaType,
  JsonSchemaValidator,
  jsonSchemaValidator as SchemaValidator,
} from '@modelcontextprotocol/client';
import { excerpt } from '../../core/protocol/errors.js';
import { BoundedJsonSchemas, STEP_LIMIT, TOO_MANY_STEPS } from '../../core/protocol/json-schema.js';
import { isLarger } from '../../core/protocol/values.js';
import { McpOutputSchemaError, UncheckedResult } from '../client.errors.js';

/** A schema with more values is not compiled: the compiler needs up to 0.2 ms for each. */
const MAX_SCHEMA_VALUES = 10_000;
/** Compiling a schema and checking a result may take so many milliseconds together. */
const MAX_CHECK_MS = 1_000;

/**
 * # Checks of results by the output schemas of a server
 *
 * The server writes both, so either may be hostile. The official client asks for the validators of all listed tools at its
 * first call. Here a schema is compiled with the first result of its tool, so that a list costs nothing, and by an engine of its
 * own: an engine keeps all its schemas, and gives a tool the schema of another one with the same `$id`.
 *
 * Steps are counted where a schema has references (rule D37). A time limit ends what has no steps: the compiler, regular
 * expressions, and many schemas for many values. V8 interrupts only what a script of `node:vm` calls.
 */
export class OutputSchemas implements SchemaValidator {
  /** Returns a check that throws {@link UncheckedResult} when it is given up. */
  getValidator<T>(schema: JsonSchemaType): JsonSchemaValidator<T> {
    let compiled: JsonSchemaValidator<T> | undefined;
    return (value) => {
      if (isLarger(schema, MAX_SCHEMA_VALUES))
        throw new UncheckedResult(`the schema has more than ${MAX_SCHEMA_VALUES} values`);
      const outcome = withinTime(() => {
        compiled ??= new BoundedJsonSchemas().getValidator<T>(schema);
        return compiled(value);
      });
      if (outcome.errorMessage === TOO_MANY_STEPS)
        throw new UncheckedResult(`the result has too many alternatives of the schema (more than ${STEP_LIMIT})`);
      return outcome;
    };
  }
}

/** Returns the official client, but its errors of results that could not be checked name the tool. */
export function namingTools(Base: typeof Client): typeof Client {
  return class extends Base {
    override async callTool(...[params, options]: Parameters<Client['callTool']>): ReturnType<Client['callTool']> {
      try {
        return await super.callTool(params, options);
      } catch (error) {
        throw error instanceof UncheckedResult ? new McpOutputSchemaError(params.name, error.message) : error;
      }
    }
  };
}

const SCRIPT = new Script('run()');
const CONTEXT = createContext() as { run?: () => unknown };

/** Runs a check. @throws UncheckedResult when it takes too long, or throws */
function withinTime<T>(run: () => T): T {
  CONTEXT.run = run;
  try {
    return SCRIPT.runInContext(CONTEXT, { timeout: MAX_CHECK_MS }) as T;
  } catch (error) {
    const { code, message } = error as { code?: unknown; message: string };
    const late = code === 'ERR_SCRIPT_EXECUTION_TIMEOUT';
    throw new UncheckedResult(late ? `the check took more than ${MAX_CHECK_MS} ms` : excerpt(message));
  } finally {
    delete CONTEXT.run;
  }
}
