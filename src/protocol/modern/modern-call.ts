import type { McpHttpCall } from '../../context/mcp-call.js';
import { ServedCall } from '../../context/served-call.js';
import type { JsonRpcRequest, RequestId } from '../../wire/json-rpc.js';

/**
 * One modern request while it is served, as its handler sees it. It has no session, and ends with its connection.
 *
 *     open ──cancel()──▶ cancelled
 */
export class ModernCall extends ServedCall {
  readonly session = undefined;

  constructor(
    http: McpHttpCall,
    readonly message: JsonRpcRequest,
  ) {
    super(http);
  }

  override get requestId(): RequestId {
    return this.message.id;
  }

  /** There is nothing to come back to: a modern connection is its request. */
  closeStream(): boolean {
    return false;
  }

  cancel(reason: unknown): void {
    this.abort(reason);
  }
}
