import type { Variables } from '@modelcontextprotocol/server';
import { UriTemplate } from '../../wire/spec.js';

/** Longer URIs make the SDK's own check throw, which is no fault of the server. */
const MAX_URI_CHARACTERS = 8_192;

/**
 * The SDK's template, which makes a regular expression anew each time it looks at a URI (5 µs). A read asks one template
 * after the other; most of them begin otherwise, which is seen at once.
 */
export class PrefixedUriTemplate extends UriTemplate {
  readonly #prefix: string;

  constructor(template: string) {
    super(template);
    this.#prefix = template.slice(0, template.indexOf('{'));
  }

  override match(uri: string): Variables | null {
    return uri.startsWith(this.#prefix) && uri.length <= MAX_URI_CHARACTERS ? super.match(uri) : null;
  }
}
