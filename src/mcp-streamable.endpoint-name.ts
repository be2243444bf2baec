/** How an endpoint is called in the app and in messages. */
export const ENDPOINT_NAME = Symbol('nestjs-mcp-streamable:endpoint-name');

export interface EndpointName {
  readonly name: string | undefined;
  readonly path: string;
  /** The endpoint has guards of its own. */
  readonly guarded: boolean;
}
