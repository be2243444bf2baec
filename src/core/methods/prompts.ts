import { isObject } from '../protocol/json-rpc.js';
import type { CompleteRequest, CompleteResult } from '@modelcontextprotocol/server';
import { isThenable, type MaybePromise } from '../common/promises.js';
import type { McpCall } from '../calls/mcp-call.js';
import type { McpTarget } from '../calls/mcp-target.js';
import {
  entryOf,
  type PromptEntry,
  type ResourceEntry,
  type ResourceTemplateEntry,
} from '../handlers/registry/handler-table.js';
import type { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { shown } from '../protocol/errors.js';
import { notFound } from '../handlers/results/handler-failure.js';
import { sdk } from '../protocol/spec.js';
import { canonicalUri } from '../protocol/uris.js';
import type { HandlerCalls } from './handler-calls.js';
import type { RawParams, ServedMethod, ServedMethods } from '../plugins/served-method.js';
import { invalidParams } from '../protocol/spec.js';
import { isRecordOfTexts, paramsReader } from './method.js';
import { isUri } from './resources.js';

interface GetParams {
  readonly name: string;
  readonly arguments?: Record<string, string> | undefined;
}

type CompleteParams = CompleteRequest['params'];

const NO_ARGUMENTS: Record<string, string> = Object.freeze({});
const NO_COMPLETION: CompleteResult['completion'] = { values: [], total: 0, hasMore: false };

/**
 * Serves `prompts/get`, and `completion/complete` for the arguments of prompts and the variables of resource templates.
 */
export function promptMethods(sources: EndpointSources, calls: HandlerCalls): ServedMethods {
  const { table } = sources;
  const get: ServedMethod<GetParams> = {
    read: paramsReader('GetPromptRequest', ({ name, arguments: args }) =>
      typeof name === 'string' && (args === undefined || isRecordOfTexts(args)) ? { name, arguments: args } : undefined,
    ),
    find: ({ name }, call) =>
      typeof name === 'string' ? (table.get('prompt', name) ?? sources.find('prompt', name, call)) : undefined,
    serve({ name, arguments: args }, call) {
      const prompt = entryOf(call, 'prompt');
      if (!prompt) throw notFound('prompt', name);
      return calls.run(call, name, { name, arguments: args }, prompt, args ?? NO_ARGUMENTS);
    },
  };
  const complete: ServedMethod<CompleteParams> = {
    read: paramsReader('CompleteRequest', plainCompletion),
    find({ ref }, call) {
      const about = isObject(ref) ? referred(sources, ref, call) : undefined;
      return isThenable(about) ? about.then(completionOf) : completionOf(about);
    },
    async serve({ ref, argument, context: known }, call) {
      const entry = (call.target as CompletionTarget | undefined)?.about;
      if (!entry || table.isHidden(entry, call)) throw missingReference(ref);
      const context = calls.context(call);
      // The guards must see what the method sees: another value of the argument that is completed counts for neither.
      const { [argument.name]: _, ...others } = known?.arguments ?? NO_ARGUMENTS;
      const args = { ...others, [argument.name]: argument.value };
      const refusal: Promise<unknown> =
        entry.kind === 'prompt'
          ? entry.refusal(args, context)
          : entry.kind === 'template'
            ? entry.refusal({ variables: args }, context)
            : entry.refusal({ uri: canonicalUri(entry.key) }, context);
      await refusal.catch((error: unknown) => {
        throw isMissing(error) ? missingReference(ref) : error;
      });
      // A reference may also be the URI of a resource, which has no completions.
      const source = entry.kind === 'resource' ? undefined : entry.completions.get(argument.name);
      if (!source) return { completion: NO_COMPLETION };
      return { completion: await source(argument.value, others, context) };
    },
  };
  return { 'prompts/get': get, 'completion/complete': complete };
}

/** Returns the error for a missing handler, and for one that the lists of the caller do not show. */
function missingReference(ref: CompleteParams['ref']): Error {
  return invalidParams(`Reference ${shown(ref)} not found: completion needs an existing prompt or resource template.`);
}

/** Returns whether an error is that of a missing handler: errors of guards have another class. */
function isMissing(error: unknown): boolean {
  return error instanceof sdk.ProtocolError;
}

/** A completion is about a prompt or a template; a resource has none. */
type Completed = PromptEntry | ResourceTemplateEntry | ResourceEntry;
type CompletionTarget = McpTarget & { readonly about: Completed };

function completionOf(about: Completed | undefined): CompletionTarget | undefined {
  return about && { kind: 'completion', key: about.key, about };
}

/** @param ref unchecked */
function referred(
  sources: EndpointSources,
  { type, name, uri }: RawParams,
  call: McpCall,
): MaybePromise<Completed | undefined> {
  const { table } = sources;
  if (type === 'ref/prompt') {
    return typeof name === 'string' ? (table.get('prompt', name) ?? sources.find('prompt', name, call)) : undefined;
  }
  if (!isUri(uri)) return undefined;
  return table.get('template', uri) ?? table.get('resource', uri) ?? sources.find('template', uri, call);
}

function plainCompletion({ ref, argument, context }: Readonly<Record<string, unknown>>): CompleteParams | undefined {
  if (!isRecordOfTexts(ref) || !isRecordOfTexts(argument)) return undefined;
  const { name, value } = argument;
  if (name === undefined || value === undefined) return undefined;
  const named = ref['type'] === 'ref/prompt' ? ref['name'] : ref['type'] === 'ref/resource' ? ref['uri'] : undefined;
  if (named === undefined) return undefined;
  if (context === undefined) return { ref: ref as CompleteParams['ref'], argument: { name, value } };
  if (!isObject(context)) return undefined;
  const { arguments: known } = context;
  if (known !== undefined && !isRecordOfTexts(known)) return undefined;
  return {
    ref: ref as CompleteParams['ref'],
    argument: { name, value },
    context: known ? { arguments: known } : {},
  };
}
