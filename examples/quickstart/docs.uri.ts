const ROOT = 'docs:///';

/** Names have slashes, which only `{+…}` lets through. */
export const DOCS_TEMPLATE = `${ROOT}{+name}`;

/** The URI of a document. */
export function uriOf(name: string): string {
  return ROOT + name.split('/').map(encodeURIComponent).join('/');
}
