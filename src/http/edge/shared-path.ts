import { VERSION_NEUTRAL, type VersioningOptions, VersioningType } from '@nestjs/common';
import { McpOptionError } from '../../common/option-checks.js';
import type { EndpointName } from '../../context/endpoint-name.js';

/**
 * Two endpoints of an app must differ in their paths below its global prefix.
 *
 * @param modulePaths the paths that RouterModule puts before each
 * @throws McpOptionError
 */
export function assertOwnPath(
  endpoints: readonly [EndpointName, EndpointName],
  modulePaths: readonly [string, string],
  versioning: VersioningOptions | undefined,
): void {
  const [one, other] = endpoints.map((endpoint, index) => placesOf(endpoint, modulePaths[index]!, versioning));
  const shared = one!.find((place) => other!.some((another) => overlap(place, another)));
  if (!shared) return;
  const names = endpoints.map(({ name }) => (name === undefined ? 'without a name' : `"${name}"`)).join(' and ');
  const text = `Two MCP endpoints of this app (${names}) are served at "${shared.path}", so one would hide the other. Give each a "path" of its own, or a "version" of the app.`;
  throw new McpOptionError('path', text);
}

/** @throws McpOptionError for two endpoints of an app with the same name */
export function assertOwnName({ name, path }: EndpointName, other: EndpointName): void {
  if (name !== other.name) return;
  const same = name === undefined ? 'no name' : `the name "${name}"`;
  const text = `Two MCP endpoints of this app, at "${path}" and "${other.path}", have ${same}. Give each a "name" of its own.`;
  throw new McpOptionError('name', text);
}

interface Place {
  readonly path: string;
  /** `VERSION_NEUTRAL` also where the version is part of the path, or the app has none. */
  readonly version: string | symbol;
}

function placesOf({ path, version }: EndpointName, modulePath: string, versioning?: VersioningOptions): Place[] {
  return [version].flat().map((one) => {
    const versioned = versioning !== undefined && typeof one === 'string';
    const inUri = versioned && versioning.type === VersioningType.URI;
    const parts = [
      inUri ? `${versioning.prefix === undefined ? 'v' : versioning.prefix || ''}${one}` : '',
      modulePath,
      path,
    ];
    return { path: normalized(parts.join('/')), version: versioned && !inUri ? one : VERSION_NEUTRAL };
  });
}

/** A neutral endpoint takes what asks for a version, too: of which other one it leaves something depends on the adapter. */
function overlap(one: Place, other: Place): boolean {
  const versions = [one.version, other.version];
  return one.path === other.path && (one.version === other.version || versions.includes(VERSION_NEUTRAL));
}

/** Two parameters match the same, whatever they are called; upper case counts on Fastify only. */
function normalized(path: string): string {
  const segments = path.split('/').filter((segment) => segment !== '');
  return `/${segments.map((segment) => segment.replace(/^:\w+$/, ':parameter').toLowerCase()).join('/')}`;
}
