import { VERSION_NEUTRAL, type VersioningOptions, VersioningType } from '@nestjs/common';
import { McpOptionError } from '../../common/options.js';
import type { EndpointName } from '../../calls/endpoint-name.js';

/**
 * Throws unless two endpoints of an app differ in their paths below its global prefix, or in their versions of its API.
 *
 * @param modulePaths the paths that RouterModule puts before each
 * @throws McpOptionError
 */
export function assertOwnPath(
  endpoints: readonly [EndpointName, EndpointName],
  modulePaths: readonly [string, string],
  versioning: VersioningOptions | undefined,
): void {
  // Upper case counts on Fastify only.
  const [path, other] = endpoints.map((endpoint, index) => {
    const segments = `${modulePaths[index]}/${endpoint.path}`.toLowerCase().split('/');
    return `/${segments.filter((segment) => segment !== '').join('/')}`;
  });
  if (path !== other || (versioning && areApart(endpoints, versioning))) return;
  const names = endpoints.map(({ name }) => (name === undefined ? 'without a name' : `"${name}"`)).join(' and ');
  const text = `Two MCP endpoints of this app (${names}) are served at "${path}", so one would hide the other. Give each its own "path", or its own "version" of the app.`;
  throw new McpOptionError('path', text);
}

/**
 * Returns whether versions separate two endpoints. A neutral endpoint also serves requests that ask for a version,
 * unless the version is in the path.
 */
function areApart([one, other]: readonly [EndpointName, EndpointName], { type }: VersioningOptions): boolean {
  const versions = [one, other].map(({ version }) => [version].flat());
  const neutral = type !== VersioningType.URI && versions.flat().includes(VERSION_NEUTRAL);
  return !neutral && !versions[0]!.some((version) => versions[1]!.includes(version));
}

/** Throws for two endpoints of an app with the same name. @throws McpOptionError */
export function assertOwnName({ name, path }: EndpointName, other: EndpointName): void {
  if (name !== other.name) return;
  const same = name === undefined ? 'no name' : `the name "${name}"`;
  const text = `Two MCP endpoints of this app, at "${path}" and "${other.path}", have ${same}. Give each its own "name".`;
  throw new McpOptionError('name', text);
}

/** Nest's RouterModule keeps under this key what it puts before the paths of a module; Nest 12 alone exports it. */
const MODULE_PATH = '__module_path__';

/**
 * Returns the prefix that RouterModule puts before the paths of a module. Nest keeps it on the class, by app or for
 * all.
 */
export function routerPathOf({ constructor }: object, applicationId: string): string {
  const keys = [`${MODULE_PATH}${applicationId}`, MODULE_PATH];
  const [ofApp, ofAll] = keys.map((key) => Reflect.getMetadata(key, constructor) as string | undefined);
  return ofApp ?? ofAll ?? '';
}
