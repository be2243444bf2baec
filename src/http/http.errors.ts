import { McpOptionError } from '../common/option-checks.js';

/** An option of the HTTP edge that cannot work; thrown while the app starts. @publicApi */
export class McpHttpOptionError extends McpOptionError {}

/** A request has a user without a principal: an operator's mistake, which the log names once. @internal */
export class UnknownPrincipalError extends Error {
  override readonly name = 'UnknownPrincipalError';
}
