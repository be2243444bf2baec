import { Inject, Injectable } from '@nestjs/common';
import { ENDPOINT_NAME, type EndpointName } from '../context/endpoint-name.js';
import { logger } from '../context/operator-log.js';

/** A request that is refused. */
export interface Refusal {
  readonly status: number;
  /** Why; holds no credentials. */
  readonly message: string;
  /** The option that decides it. */
  readonly option?: string | undefined;
}

/**
 * What operators read of the requests that one endpoint refuses.
 *
 * Each is a line at `debug`. The first one that an option decides is a warning, since clients cannot mend it. Answers with
 * 400 are left out: their texts quote bodies. A line names the endpoint and not the URL, which may hold a token.
 */
@Injectable()
export class RefusalLog {
  /** Options that a warning has named. */
  readonly #named = new Set<string>();

  constructor(@Inject(ENDPOINT_NAME) private readonly endpoint: Pick<EndpointName, 'path'>) {}

  note(method: string | undefined, { status, message, option }: Refusal): void {
    if (status === 400) return;
    const text = `${method} on the MCP endpoint "${this.endpoint.path}" was answered with ${status}: ${message}`;
    if (option === undefined || this.#named.has(option)) return logger.debug(text);
    this.#named.add(option);
    logger.warn(`${text} Further refusals of this kind are logged at "debug".`);
  }
}
