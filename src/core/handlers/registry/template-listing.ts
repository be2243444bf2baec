import type { Resource } from '@modelcontextprotocol/server';
import { shown } from '../../protocol/errors.js';
import { isObject } from '../../protocol/json-rpc.js';
import { checkedBySpec } from '../../protocol/spec.js';
import { canonicalUri } from '../../protocol/uris.js';
import type { McpListedResource, ResourceTemplateOptions } from '../decorators/handler-options.js';
import { McpHandlerResultError, problemsText } from '../handlers.errors.js';
import type { FailureOptions } from '../handlers.options.js';
import { toReadFailure } from '../results/handler-failure.js';
import { type HandlerRunner, reportOf } from '../results/handler-outcome.js';
import type { TemplateListing } from './handler-table.js';
import type { UriTemplate } from './uri-template.js';

/** Lists the resources of a template; the result is checked here. */
export interface DeclaredListing {
  /** Names the method in messages, such as `NoteResources.list`. */
  readonly origin: string;
  readonly runner: Pick<HandlerRunner, 'run' | 'visible'>;
}

type Listed = Pick<ResourceTemplateOptions, 'annotations' | 'icons' | 'mimeType' | 'uriTemplate'> & {
  readonly failures: FailureOptions;
};

/** Returns the list of a template's resources, in the form of the protocol. */
export function listingOf(
  { origin, runner }: DeclaredListing,
  template: UriTemplate,
  { uriTemplate, annotations, icons, mimeType, failures }: Listed,
): TemplateListing {
  const resourceOf = (listed: McpListedResource): Resource => {
    const { uri, name = uri } = isObject(listed) ? listed : ({} as McpListedResource);
    if (typeof uri !== 'string' || !template.match(canonicalUri(uri))) {
      const text = `${origin} listed the URI ${shown(uri)}, which does not match its template "${uriTemplate}".`;
      throw new McpHandlerResultError(text);
    }
    const resource = { annotations, icons, mimeType, ...listed, name };
    const { problem } = checkedBySpec('Resource', resource);
    if (!problem) return resource;
    const text = `${origin} listed ${shown(uri)}, which does not match the specification of a Resource: ${problemsText([problem])}.`;
    throw new McpHandlerResultError(text);
  };
  return {
    visible: (context) => runner.visible(context),
    variablesOf: (uri) => template.match(canonicalUri(uri)) ?? {},
    async list(args, context) {
      try {
        const returned = await runner.run(args, context);
        const { resources, nextCursor } = pageOf(returned, origin);
        return { resources: resources.map(resourceOf), nextCursor };
      } catch (error) {
        const report = reportOf({ origin, context });
        // The template is none that could be missing: not of the kind whose 404 is a resource that does not exist.
        throw toReadFailure(error, { kind: 'prompt', name: uriTemplate, failures, request: context.request, report });
      }
    },
  };
}

/** Checks a page. @throws McpHandlerResultError */
function pageOf(returned: unknown, origin: string): { resources: McpListedResource[]; nextCursor: string | undefined } {
  const page = Array.isArray(returned) ? { resources: returned as unknown[] } : returned;
  if (isObject(page)) {
    const { resources, nextCursor } = page;
    if (Array.isArray(resources) && (nextCursor === undefined || typeof nextCursor === 'string')) {
      return { resources: resources as McpListedResource[], nextCursor };
    }
  }
  throw new McpHandlerResultError(
    `${origin} must return an array of resources, or { resources, nextCursor } with a text as "nextCursor"; it returned ${shown(returned)}.`,
  );
}
