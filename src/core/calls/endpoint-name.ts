import type { ControllerOptions } from '@nestjs/common';

/** The versions of the app's API in which an endpoint is served, as a controller has them. @internal */
export type McpEndpointVersion = NonNullable<ControllerOptions['version']>;

/** The injection token of the name of an endpoint, for messages. */
export const ENDPOINT_NAME = Symbol('nestjs-mcp-streamable:endpoint-name');

export interface EndpointName {
  readonly name: string | undefined;
  readonly path: string;
  readonly version: McpEndpointVersion;
  /** The endpoint has guards of its own. */
  readonly guarded: boolean;
  /** The names of these guards. */
  readonly guards: readonly string[];
}
