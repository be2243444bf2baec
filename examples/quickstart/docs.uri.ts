const ROOT = 'docs:///';

/** Names have slashes, which only `{+…}` lets through. */
export const DOCS_TEMPLATE = `${ROOT}{+name}`;

/** The URI of a document. */
export function uriOf(name: string): string {
  return ROOT + name.split('/').map(encodeURIComponent).join('/');
}

/** The name in a URI. A URI that cannot be decoded names no document. */
export function nameOf(uri: string): string {
  try {
    return decodeURIComponent(uri.slice(ROOT.length));
  } catch {
    return uri;
  }
}
