const JSON_MEDIA_TYPE = /^[ \t]*application\/json[ \t]*(?:;|$)/i;

/**
 * Whether a `Content-Type` says JSON; parameters and case do not matter (behaviour.md E4).
 *
 * Exact on purpose: no browser sends `application/json` across origins without asking first (CORS preflight), whereas it
 * does send `text/plain; application/json`.
 *
 * @param header the `Content-Type`; `undefined` if there is none, which is not JSON
 * @internal
 */
export function isJsonMediaType(header: string | undefined): boolean {
  return header !== undefined && JSON_MEDIA_TYPE.test(header);
}
