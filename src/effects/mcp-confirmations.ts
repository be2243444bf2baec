import { Inject, Injectable } from '@nestjs/common';
import { McpEndpointHost } from '../core/plugins/mcp-plugin.js';

/** What a user is asked to confirm on a page of the app. @internal */
export interface McpConfirmation {
  /** The name of the tool that runs when the user accepts. */
  readonly tool: string;
  readonly message: string;
  /** What the user has decided so far. */
  readonly answer: 'open' | 'accept' | 'decline';
}

/** The pages of an endpoint. The plugin for `confirm`, which has them, is loaded where handlers are served. */
export abstract class ConfirmationPages {
  abstract find(principal: string, id: string): Promise<McpConfirmation | undefined>;
  abstract answer(principal: string, id: string, answer: 'accept' | 'decline'): Promise<boolean>;
}

/**
 * Serves the pages on which users confirm calls, for clients that cannot ask: `@Confirm(…, { whenUnable: 'url', url })`.
 *
 * The page must know its user by itself, such as by a cookie of the app: a link proves nothing. Each method takes the principal of that
 * user, as the option `principal` of the endpoint returns it. Show the message, and let the user decide by a form, not by opening the
 * link.
 *
 * An app with several endpoints injects it by name: `@InjectMcp(McpConfirmations, name)`.
 *
 * @publicApi
 */
@Injectable()
export class McpConfirmations {
  /** @internal */
  constructor(@Inject(McpEndpointHost) private readonly endpoint: McpEndpointHost) {}

  /**
   * Returns what a page is about.
   *
   * @param id as the option `url` got it
   * @param principal of the user who opens the page
   * @returns `undefined` for an id that is unknown or over, or belongs to another user
   * @throws (rejects) McpStateError `STORE_UNAVAILABLE`
   */
  async find(id: string, principal: string): Promise<McpConfirmation | undefined> {
    const page = await this.endpoint.find(ConfirmationPages)?.find(principal, id);
    return page && { tool: page.tool, message: page.message, answer: page.answer };
  }

  /**
   * Records the decision of the user. An accepted call runs when it is made again, once.
   *
   * @returns `false` when there is nothing to decide any more, or the page belongs to another user
   * @throws (rejects) McpStateError `STORE_UNAVAILABLE`
   */
  async answer(id: string, principal: string, answer: 'accept' | 'decline'): Promise<boolean> {
    return this.endpoint.find(ConfirmationPages)?.answer(principal, id, answer) ?? false;
  }
}
