import type { AuthInfo } from '@modelcontextprotocol/server';
import { McpError, shown } from '../protocol/errors.js';
import { credentialsOf, type RequestCredentials } from './credentials.js';

/** The id of a caller is a string, or a value that is converted to one, such as a number or an `ObjectId`. @internal */
export type McpPrincipalId = string | number | bigint | { toHexString(): string };

/** Returns the caller of a request; `undefined`, `null`, `''` and `NaN` mean an anonymous caller. @publicApi */
export type McpPrincipalFunction = {
  /** A method lets the parameter have the type of one adapter: Express' `Request` or `FastifyRequest`. */
  principal(request: McpRequest): McpPrincipalId | null | undefined | Promise<McpPrincipalId | null | undefined>;
}['principal'];

/* oxlint-disable typescript/no-explicit-any -- optional and `any`, so that a parameter of each adapter's type, or of one's own, fits */
/**
 * A request with the properties that Express' `Request` and Fastify's `FastifyRequest` share, and that guards set. To
 * have it typed, annotate the parameter: `(request: FastifyRequest) => …`, `({ user }: { user: User }) => …`.
 *
 * @publicApi
 */
export interface McpRequest {
  readonly headers?: any;
  readonly params?: any;
  readonly query?: any;
  readonly ip?: string | undefined;
  /** Your guard, or Passport, sets it. */
  readonly user?: any;
  /** The access token that the option `auth`, or a guard, has verified. */
  readonly auth?: AuthInfo | undefined;
}
/* oxlint-enable typescript/no-explicit-any */

/** Guards set these properties on a request: Passport sets `user`, the MCP SDK `auth`. */
interface Marked {
  readonly user?: unknown;
  readonly auth?: { readonly extra?: { readonly sub?: unknown } };
}

/** Express' request, or Fastify's, where middleware sets these properties on Node's request. */
type MarkedRequest = Marked & { readonly raw?: Marked };

/**
 * Returns the user that guards, or middleware, set on a request.
 *
 * @returns `undefined` also for the `false` that Passport leaves where signing in is optional
 * @internal
 */
export function userOf({ user, raw }: MarkedRequest): unknown {
  const left = user ?? raw?.user ?? false;
  return left === false ? undefined : left;
}

/** @internal */
export function defaultPrincipal(request: MarkedRequest): McpPrincipalId | null | undefined {
  const credentials = credentialsOf(request);
  const user = userOf(request);
  if (credentials) return principalOfToken(credentials, user);
  const id = idOf(user);
  if (id !== undefined && id !== null) return id as McpPrincipalId;
  // The client id is never used: many users have the same OAuth client, and would be one caller.
  const byToken = user === undefined || (typeof user === 'object' && Object.keys(user!).length === 0);
  return byToken ? ((request.auth ?? request.raw?.auth)?.extra?.sub as McpPrincipalId | undefined) : undefined;
}

function idOf(user: unknown): unknown {
  // Strings have a method "sub".
  const fields: Partial<Record<'sub' | 'id' | 'userId' | '_id', unknown>> =
    typeof user === 'object' && user !== null ? user : {};
  return fields.sub ?? fields.id ?? fields.userId ?? fields._id;
}

/**
 * Returns the caller that a token names, unless a guard set another one: handlers that read `request.user` would act
 * for one caller in the session of another.
 *
 * @throws UnknownPrincipalError, McpError PRINCIPAL_MISMATCH
 */
function principalOfToken({ principal, id, user: ofToken }: RequestCredentials, user: unknown): string {
  if (principal === undefined) {
    const text =
      'A request was refused: the verifier gives no subject for its token ("extra.sub" of the AuthInfo is undefined). With the client id as principal, all users of a client app would be one caller. Let the option "auth.verifier" return the subject as "extra.sub"; if clients call for themselves (client credentials), set "auth.clientsAreCallers: true".';
    throw new UnknownPrincipalError(text, 'auth.clientsAreCallers');
  }
  const other = user === ofToken ? undefined : principalText(idOf(user));
  if (other === undefined || other === principal || other === id) return principal;
  const text =
    'The access token of this request and its "request.user", which a guard of the app has set, name different callers. Send the credentials of one caller. If "request.user" has ids of its own, the app sets the option "principal" to a function that returns the id of the caller.';
  throw new McpError('PRINCIPAL_MISMATCH', text, { option: 'principal' });
}

/**
 * Thrown when a request has a user or a token, but no principal: a mistake in the configuration, which is logged once.
 */
export class UnknownPrincipalError extends Error {
  override readonly name = 'UnknownPrincipalError';

  constructor(
    message: string,
    /** Names the option that corrects it. */
    readonly option: 'principal' | 'auth.clientsAreCallers' = 'principal',
  ) {
    super(message);
  }
}

/** Matches an `ObjectId` or `UUID` of MongoDB's driver, as text. */
const HEX_ID = /^[\da-f]{8}[\da-f-]{16,28}$/i;

/**
 * Returns the principal as text. It accepts only values with a unique string form: most objects are "[object Object]",
 * so all callers would be the same one.
 *
 * @returns `undefined` for the anonymous caller
 * @throws UnknownPrincipalError
 */
export function principalText(value: unknown): string | undefined {
  if (value === undefined || value === null || value === '' || Number.isNaN(value)) return undefined;
  if (typeof value === 'string') return value;
  if (typeof value === 'bigint') return String(value);
  // Larger numbers are not exact: two ids could be the same number.
  if (typeof value === 'number' && Math.abs(value) <= Number.MAX_SAFE_INTEGER) return String(value);
  const { toHexString } = value as { toHexString?: unknown };
  const hex: unknown = typeof toHexString === 'function' ? toHexString.call(value) : undefined;
  if (typeof hex === 'string' && HEX_ID.test(hex)) return hex;
  const text = `The option "principal" must return a string, a number, a bigint or undefined; it returned ${kindOf(value)}. Requests with any other principal are refused. Return the id of the caller, such as request.user.email.`;
  throw new UnknownPrincipalError(text);
}

/** Describes a value without its contents: a user may hold secrets. */
export function kindOf(value: unknown): string {
  const isObject = typeof value === 'object' && value !== null;
  return isObject ? `an object with the keys ${shown(Object.keys(value).slice(0, 10))}` : `a ${typeof value}`;
}
