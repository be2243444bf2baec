import type { McpContext } from '../../context/mcp-context.js';
import type { FailureOptions } from '../handlers.options.js';
import type { SchemaCompiler } from '../schema/schema-compiler.js';
import type { Validate } from '../schema/handler-schema.js';

/** What runs a handler: a method with everything that Nest puts around it, or a function. */
export interface HandlerRunner {
  /** @param changed takes what the method returned, if interceptors made something else of it */
  run(raw: unknown, context: McpContext, changed?: (returned: unknown) => void): Promise<unknown>;
  visible(context: McpContext): boolean | Promise<boolean>;
  admits(raw: unknown, context: McpContext): Promise<boolean>;
  readonly guarded: boolean;
}

/** Where an entry comes from. */
export interface EntrySource {
  /** For messages: `OrderTools.find (OrdersModule)`. */
  readonly origin: string;
  readonly compiler: SchemaCompiler;
  readonly failures: FailureOptions;
  /** @param validate what checks the arguments, after the guards; without it they are taken as they are */
  readonly runner: (validate: Validate | undefined) => HandlerRunner;
}
