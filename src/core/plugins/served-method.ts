import type { MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpTarget } from '../calls/mcp-target.js';
import { ERAS, type McpEra } from '../protocol/era.js';
import { McpError } from '../protocol/errors.js';
import { extensionOf } from '../protocol/extensions.js';
import type { JsonRpcRequest } from '../protocol/json-rpc.js';
import { sdk } from '../protocol/spec.js';
import type { ListedKind } from './handler-source.js';

/** A method that an endpoint serves. */
export interface ServedMethod<Params = unknown> {
  /** The era that has the method. @default that of its row in `METHODS`, else both */
  readonly era?: McpEra | undefined;
  /** The id of its extension: a client that did not declare it is refused. */
  readonly extension?: string | undefined;
  /** Its results have the cache hints of this list, which it shows in another form: a method of a plugin has it. */
  readonly listHints?: ListedKind;
  /**
   * Reads the parameters, with the fields that the method has and no others.
   *
   * @throws ProtocolError -32602 that names the field
   */
  read(request: JsonRpcRequest, era: McpEra): Params;
  /**
   * Finds what a call is for. Its parameters are unchecked.
   *
   * @returns `undefined`: there is no such thing
   */
  find?(params: RawParams, call: McpCall): MaybePromise<McpTarget | undefined>;
  /**
   * Serves a request.
   *
   * @returns the result, or a promise of it
   * @throws an error with a JSON-RPC code and a message for the client
   */
  serve(params: Params, call: McpCall): object | Promise<object>;
}

/** Maps names to methods. */
export type ServedMethods = Readonly<Record<string, ServedMethod>>;

/** Parameters before they are checked. */
export type RawParams = Readonly<Record<string, unknown>>;

/**
 * Passes if the client of a call declared the extension. In the legacy era the capabilities of a client without a session are
 * not known: it passes, too.
 *
 * @throws MissingRequiredClientCapabilityError -32021 in revision 2026-07-28, McpError METHOD_NOT_FOUND in a session
 */
export function assertExtension(id: string, call: McpCall): void {
  const { declaresPerRequest } = ERAS[call.era];
  if (extensionOf(call.client.capabilities, id) || (!declaresPerRequest && !call.session)) return;
  const text = `"${call.method}" needs the extension "${id}", which this client did not declare in its capabilities ("extensions").`;
  if (!declaresPerRequest) throw new McpError('METHOD_NOT_FOUND', text);
  throw new sdk.MissingRequiredClientCapabilityError({ requiredCapabilities: { extensions: { [id]: {} } } }, text);
}
