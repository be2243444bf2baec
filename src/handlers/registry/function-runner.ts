import type { HandlerRunner } from '../entries/entry-source.js';
import { comesInParts, drain } from '../results/drain.js';
import type { Validate } from '../schema/handler-schema.js';
import type { HandlerFunction } from './registrations.js';

/** Runs a function as a handler. Nothing of Nest runs around it: what guards the endpoint has let the caller in. */
export function functionRunner(
  handler: HandlerFunction<never>,
  origin: string,
  validate: Validate | undefined,
): HandlerRunner {
  return {
    async run(raw, context) {
      const args: unknown = validate ? await validate(raw) : raw;
      const returned = await handler(args as never, context);
      return comesInParts(returned) ? drain(returned, context, origin).result : returned;
    },
    visible: () => true,
    admits: () => Promise.resolve(true),
    guarded: false,
  };
}
