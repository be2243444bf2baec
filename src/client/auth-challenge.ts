/** A parsed `WWW-Authenticate` header. @publicApi */
export interface McpAuthChallenge {
  /** The scheme as it was sent, such as `Bearer`. */
  readonly scheme: string;
  /** All parameters are found by their names in lower case. */
  readonly parameters: Readonly<Record<string, string>>;
  /** The URL of the metadata of the protected resource (RFC 9728 §5.1). */
  readonly resourceMetadata: string | undefined;
  /** The required scopes are separated by spaces (RFC 6750 §3). */
  readonly scope: string | undefined;
  /** The error code, such as `invalid_token` or `insufficient_scope` (RFC 6750 §3.1). */
  readonly error: string | undefined;
  readonly errorDescription: string | undefined;
}

const SCHEME = /(?:^|,)\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?=\s+[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*=|\s*(?:,|$))/g;
const PARAMETER = /([!#$%&'*+.^_`|~0-9A-Za-z-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/g;
/** Longer headers are not read. */
const MAX_CHARACTERS = 8_192;

/**
 * Reads a `WWW-Authenticate` header (RFC 9110 §11.6.1).
 *
 * @param header its value; several challenges may be joined by commas
 * @returns the Bearer challenge, or else the first one; `undefined` if there is none that can be read
 */
export function parseAuthChallenge(header: string | null): McpAuthChallenge | undefined {
  if (header === null || header.length > MAX_CHARACTERS) return undefined;
  // Quoted texts are masked while schemes are matched: they may contain any characters.
  const masked = header.replace(/"(?:[^"\\]|\\.)*"/g, (quoted) => `"${'_'.repeat(quoted.length - 2)}"`);
  const found = [...masked.matchAll(SCHEME)];
  const challenges = found.map((match, at) => {
    const begin = match.index + match[0].length;
    return challengeOf(match[1]!, header.slice(begin, found[at + 1]?.index));
  });
  return challenges.find(({ scheme }) => scheme.toLowerCase() === 'bearer') ?? challenges[0];
}

function challengeOf(scheme: string, text: string): McpAuthChallenge {
  const entries = [...text.matchAll(PARAMETER)].map(
    ([, name, quoted, token]) => [name!.toLowerCase(), quoted?.replace(/\\(.)/g, '$1') ?? token ?? ''] as const,
  );
  const parameters: Record<string, string> = Object.fromEntries(entries);
  const { resource_metadata: resourceMetadata, scope, error, error_description: errorDescription } = parameters;
  return { scheme, parameters, resourceMetadata, scope, error, errorDescription };
}
