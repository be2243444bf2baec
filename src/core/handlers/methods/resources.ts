import type { ReadResourceResult } from '@modelcontextprotocol/server';
import type { McpCall } from '../../calls/mcp-call.js';
import type { McpContext } from '../../calls/mcp-context.js';
import type { HandlerTable, ResourceEntry, ResourceTemplateEntry, TemplateMatch } from '../registry/handler-table.js';
import { canonicalUri } from '../../protocol/uris.js';
import { notFound } from '../results/handler-failure.js';
import { type CachePolicy, withReadHints } from './cache-hints.js';
import type { HandlerCalls } from './handler-calls.js';
import { type ServedMethod, type ServedMethods, paramsReader, type RawParams } from './method.js';

interface UriParams {
  readonly uri: string;
}

const uriOnly = ({ uri }: RawParams): UriParams | undefined => (typeof uri === 'string' ? { uri } : undefined);

/** Answers a request without a value. */
const DONE = Object.freeze({});

/** Serves `resources/read`. */
export function resourceMethods(table: HandlerTable, calls: HandlerCalls, cache: CachePolicy): ServedMethods {
  const read: ServedMethod<UriParams> = {
    asks: true,
    read: paramsReader('ReadResourceRequest', uriOnly),
    async serve({ uri }, call) {
      const found = findResource(table, uri);
      if (!found) throw notFound('resource', uri);
      const result = await calls.run(call, uri, { uri }, found.entry, found.args);
      const params: RawParams = call.message.params ?? {};
      const repeated = params['inputResponses'] !== undefined || params['requestState'] !== undefined;
      return withReadHints(call, spelled(result, uri, call), found.entry, cache, repeated);
    },
  };
  return { 'resources/read': read };
}

/** Serves the subscriptions of sessions: a session keeps what it is subscribed to, once the request has succeeded. */
export function subscriptionMethods(table: HandlerTable, calls: HandlerCalls): ServedMethods {
  const subscribe: ServedMethod<UriParams> = {
    era: 'legacy',
    read: paramsReader('SubscribeRequest', uriOnly),
    async serve({ uri }, call) {
      if (!(await admitsResource(table, uri, calls.context(call)))) throw notFound('resource', uri);
      return DONE;
    },
  };
  const unsubscribe: ServedMethod<UriParams> = {
    era: 'legacy',
    read: paramsReader('UnsubscribeRequest', uriOnly),
    serve: () => DONE,
  };
  return { 'resources/subscribe': subscribe, 'resources/unsubscribe': unsubscribe };
}

/**
 * Returns whether there is a resource at a URI that the caller may read: only then may it learn when it changes. Unlike for a
 * list, the guards have the arguments.
 */
export async function admitsResource(table: HandlerTable, uri: string, context: McpContext): Promise<boolean> {
  const found = findResource(table, uri);
  return found && !table.isOff(found.entry) ? found.entry.admits(found.args, context) : false;
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

/** Returns the resource with this URI, or the first template that matches it. */
export function findResource(table: HandlerTable, uri: string): Found | undefined {
  const entry = table.get('resource', uri);
  if (entry) return { entry, args: { uri } as TemplateMatch };
  for (const template of table.all('template')) {
    const variables = template.template.match(uri);
    if (variables) return { entry: template, args: { uri, variables } };
  }
  return undefined;
}

/** A resource, or a template that matches, with its arguments. */
interface Found {
  readonly entry: ResourceEntry | ResourceTemplateEntry;
  readonly args: TemplateMatch;
}
