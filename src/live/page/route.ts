/* What is open, as the fragment of the address: it can be shared, and Back works. */

export const KINDS = ['tool', 'resource', 'template', 'prompt', 'session', 'call', 'event'] as const;
export type Kind = (typeof KINDS)[number];

export interface Route {
  readonly kind: Kind;
  /** The name of a tool or prompt, a URI, the key of a session or call, or the number of an event. */
  readonly key: string;
  readonly endpoint: number;
  readonly trying: boolean;
}

/** @param hash such as `#tool=search_docs&endpoint=1&try` @returns `undefined` if it opens nothing */
export function routeOf(hash: string): Route | undefined {
  const fields = new URLSearchParams(hash.replace(/^#/, ''));
  const kind = KINDS.find((name) => fields.get(name));
  if (!kind) return undefined;
  const endpoint = Number(fields.get('endpoint') ?? 0);
  return {
    kind,
    key: fields.get(kind)!,
    endpoint: Number.isSafeInteger(endpoint) && endpoint > 0 ? endpoint : 0,
    trying: fields.has('try'),
  };
}

export function hashOf({ kind, key, endpoint, trying }: Route): string {
  const of = endpoint > 0 ? `&endpoint=${endpoint}` : '';
  return `#${kind}=${encodeURIComponent(key)}${of}${trying ? '&try' : ''}`;
}

/** Closes what is open, with a step of its own for Back. */
export function close(): void {
  history.pushState(null, '', location.pathname + location.search);
  dispatchEvent(new HashChangeEvent('hashchange'));
}
