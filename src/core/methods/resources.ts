import type { ReadResourceResult } from '@modelcontextprotocol/server';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpContext } from '../calls/mcp-context.js';
import {
  entryOf,
  type ResourceEntry,
  type ResourceTemplateEntry,
  type TemplateMatch,
} from '../handlers/registry/handler-table.js';
import type { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { canonicalUri, MAX_URI_CHARACTERS } from '../protocol/uris.js';
import { notFound } from '../handlers/results/handler-failure.js';
import { type CachePolicy, withReadHints } from './cache-hints.js';
import type { HandlerCalls } from './handler-calls.js';
import type { ServedMethod, ServedMethods, RawParams } from '../plugins/served-method.js';
import { paramsReader } from './method.js';

interface UriParams {
  readonly uri: string;
}

const uriOnly = ({ uri }: RawParams): UriParams | undefined => (typeof uri === 'string' ? { uri } : undefined);

/** Answers a request without a value. */
const DONE = Object.freeze({});

/** Serves `resources/read`. */
export function resourceMethods(sources: EndpointSources, calls: HandlerCalls, cache: CachePolicy): ServedMethods {
  const { table } = sources;
  const read: ServedMethod<UriParams> = {
    read: paramsReader('ReadResourceRequest', uriOnly),
    find: ({ uri }, call) =>
      isUri(uri) ? (table.find(uri, call, 'resource') ?? sources.find('resource', uri, call)) : undefined,
    async serve({ uri }, call) {
      const entry = entryOf(call, 'resource') ?? entryOf(call, 'template');
      if (!entry) throw notFound('resource', uri);
      const result = await calls.run(call, uri, { uri }, entry, argsOf(entry, uri));
      const params: RawParams = call.message.params ?? {};
      const repeated = params['inputResponses'] !== undefined || params['requestState'] !== undefined;
      return withReadHints(call, spelled(result, uri, call), entry, cache, repeated);
    },
  };
  return { 'resources/read': read };
}

/** Serves the subscriptions of sessions: a session keeps what it is subscribed to, once the request has succeeded. */
export function subscriptionMethods(sources: EndpointSources, calls: HandlerCalls): ServedMethods {
  const subscribe: ServedMethod<UriParams> = {
    read: paramsReader('SubscribeRequest', uriOnly),
    async serve({ uri }, call) {
      if (!(await admitsResource(sources, uri, calls.context(call)))) throw notFound('resource', uri);
      return DONE;
    },
  };
  const unsubscribe: ServedMethod<UriParams> = {
    read: paramsReader('UnsubscribeRequest', uriOnly),
    serve: () => DONE,
  };
  return { 'resources/subscribe': subscribe, 'resources/unsubscribe': unsubscribe };
}

/**
 * Returns whether there is a resource at a URI that the caller may read: only then may it learn when it changes. Unlike for a
 * list, the guards have the arguments.
 */
export async function admitsResource(sources: EndpointSources, uri: string, context: McpContext): Promise<boolean> {
  const { mcpCall } = context;
  const entry = sources.table.find(uri, mcpCall, 'resource') ?? (await sources.find('resource', uri, mcpCall));
  return entry && !sources.table.isHidden(entry, mcpCall) ? entry.admits(argsOf(entry, uri), context) : false;
}

/** Returns a result in which the URI of the resource is spelled as in the request: clients compare it with theirs. */
function spelled<Result extends object>(result: Result, form: string, { received }: McpCall): Result {
  const { contents } = result as { contents?: ReadResourceResult['contents'] };
  if (!contents) return result;
  const { uri: asked } = received.params as unknown as UriParams;
  const spell = (part: ReadResourceResult['contents'][number]) =>
    part.uri !== asked && canonicalUri(part.uri) === form ? { ...part, uri: asked } : part;
  return { ...result, contents: contents.map(spell) };
}

/** Returns whether it can be the URI of a resource: one that is too long is compared with no template. */
export function isUri(uri: unknown): uri is string {
  return typeof uri === 'string' && uri.length <= MAX_URI_CHARACTERS;
}

/** Returns the arguments of the handler of a resource, or of a template that matches its URI. */
function argsOf(entry: ResourceEntry | ResourceTemplateEntry, uri: string): TemplateMatch {
  return entry.kind === 'template' ? { uri, variables: entry.template.match(uri)! } : ({ uri } as TemplateMatch);
}
