import { BadRequestException } from '@nestjs/common';
import { problemsText } from '../handlers.messages.js';

/** One thing that is wrong with the arguments of a call. @publicApi */
export interface ArgumentProblem {
  /** Where, such as `address.street`; empty: in the arguments as a whole. */
  readonly path: string;
  readonly message: string;
}

/**
 * The arguments of a call do not match the schema of its handler. A `BadRequestException`, so that the filters of an app
 * treat it as what a `ValidationPipe` throws.
 *
 * @publicApi
 */
export class ArgumentsError extends BadRequestException {
  override readonly name = 'ArgumentsError';
  readonly code = 'ARGUMENTS';

  constructor(
    /** All of them; the message names the first ones, shortened. */
    readonly problems: readonly ArgumentProblem[],
  ) {
    super(`The arguments are not valid: ${problemsText(problems)}.`);
  }
}
