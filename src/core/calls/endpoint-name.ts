import type { ControllerOptions } from '@nestjs/common';

/** API versions of the app in which an endpoint is served, in the form of a controller. @internal */
export type McpEndpointVersion = NonNullable<ControllerOptions['version']>;

/** The injection token of the name of an endpoint, for messages. */
export const ENDPOINT_NAME = Symbol('nestjs-mcp-streamable:endpoint-name');

export interface EndpointName {
  readonly name: string | undefined;
  readonly path: string;
  readonly version: McpEndpointVersion;
  /** Whether the endpoint has guards of its own. */
  readonly guarded: boolean;
  readonly guards: readonly string[];
  /** Lists the interceptors that the option `decorators` puts around the endpoint. */
  readonly interceptors: readonly string[];
}

/** Names the endpoint in the keys of its state: the same on all nodes, and without colons. */
export function stateOwnerOf({ name, path }: Pick<EndpointName, 'name' | 'path'>): string {
  // The path of one endpoint may be the name of another.
  return name === undefined ? `path.${encodeURIComponent(path)}` : `name.${encodeURIComponent(name)}`;
}
