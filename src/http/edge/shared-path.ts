import { VERSION_NEUTRAL, type VersioningOptions, VersioningType } from '@nestjs/common';
import type { EndpointName } from '../../context/endpoint-name.js';

/**
 * The path that two endpoints of an app would share, below its global prefix; `undefined` if they do not.
 *
 * @param modulePaths what RouterModule puts before each
 */
export function sharedPath(
  endpoints: readonly [EndpointName, EndpointName],
  modulePaths: readonly [string, string],
  versioning: VersioningOptions | undefined,
): string | undefined {
  const [one, other] = endpoints.map((endpoint, index) => placesOf(endpoint, modulePaths[index]!, versioning));
  return one!.find((place) => other!.some((another) => overlap(place, another)))?.path;
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
