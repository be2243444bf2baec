import { UriTemplate } from '../../wire/spec.js';
import {
  CACHE_NAMES,
  type CacheHints,
  type ResourceOptions,
  type ResourceTemplateArgs,
  type ResourceTemplateOptions,
} from '../definitions/handler-options.js';
import type { Completion, ResourceEntry, ResourceTemplateEntry } from '../handler-entry.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import { resourceOutcome } from '../results/handler-outcome.js';
import type { EntrySource } from './entry-source.js';
import { PrefixedUriTemplate } from './prefixed-uri-template.js';
import { assertName, wireOf } from './wire.js';

/** @throws HandlerDefinitionError */
export function resourceEntry(options: ResourceOptions, { origin, runner, failures }: EntrySource): ResourceEntry {
  const { uri, name, title, description, icons, mimeType, size, annotations, _meta, cache } = options;
  assertName('name', name, origin);
  assertUri(uri, origin);
  const handler = runner(undefined);
  return {
    kind: 'resource',
    key: uri,
    wire: wireOf('Resource', { uri, name, title, description, icons, mimeType, size, annotations, _meta }, origin),
    origin,
    ...cacheOf(cache, origin),
    invoke: (args, context) =>
      resourceOutcome(
        () => handler.run(args, context),
        { name: uri, origin, context, failures, kind: 'resource' },
        args.uri,
        mimeType,
      ),
    visible: (context) => handler.visible(context),
    admits: (args, context) => handler.admits(args, context),
    guarded: handler.guarded,
  };
}

/** @throws HandlerDefinitionError */
export function templateEntry(
  options: ResourceTemplateOptions,
  { origin, runner, failures }: EntrySource,
  completions: ReadonlyMap<string, Completion>,
): ResourceTemplateEntry {
  const { uriTemplate, name, title, description, icons, mimeType, annotations, _meta, cache } = options;
  assertName('name', name, origin);
  const template = templateOf(uriTemplate, origin);
  const fields = { uriTemplate, name, title, description, icons, mimeType, annotations, _meta };
  const handler = runner(argsOfMethod);
  return {
    kind: 'template',
    key: uriTemplate,
    wire: wireOf('ResourceTemplate', fields, origin),
    origin,
    ...cacheOf(cache, origin),
    template,
    completions,
    invoke: (args, context) =>
      resourceOutcome(
        () => handler.run(args, context),
        { name: uriTemplate, origin, context, failures, kind: 'template' },
        args.uri,
        mimeType,
      ),
    visible: (context) => handler.visible(context),
    admits: (args, context) => handler.admits(args, context),
    guarded: handler.guarded,
  };
}

/** Guards see the parts; the method gets the variables as its arguments. */
function argsOfMethod(raw: unknown): ResourceTemplateArgs {
  const { uri, variables } = raw as { uri: string; variables: Record<string, string | string[]> };
  return { ...variables, uri };
}

function assertUri(uri: unknown, origin: string): void {
  assertName('uri', uri, origin);
  if (UriTemplate.isTemplate(uri as string)) {
    throw new HandlerDefinitionError(origin, handlerMessages.uriIsTemplate(uri as string));
  }
  if (!URL.canParse(uri as string)) throw new HandlerDefinitionError(origin, handlerMessages.notAUri(uri as string));
}

/** @throws HandlerDefinitionError also for what is RFC 6570, but nothing that the SDK could match */
function templateOf(uriTemplate: string, origin: string): UriTemplate {
  assertName('uriTemplate', uriTemplate, origin);
  const unusable = (reason: string, cause?: unknown): HandlerDefinitionError =>
    new HandlerDefinitionError(origin, handlerMessages.badTemplate(uriTemplate, reason), { cause });
  let template: UriTemplate;
  try {
    template = new PrefixedUriTemplate(uriTemplate);
  } catch (error) {
    throw unusable(error instanceof Error ? error.message : String(error), error);
  }
  const fault = faultOf(template);
  if (fault !== undefined) throw unusable(fault);
  return template;
}

/** An expression of RFC 6570 that the SDK can match: not `{;x}`, not `{x:3}`. */
const EXPRESSION = /^(?<operator>[+#./?&]?)(?<names>[\w.%]+\*?(?:,[\w.%]+\*?)*)$/;

function faultOf(template: UriTemplate): string | undefined {
  const names = template.variableNames;
  for (const [, expression = ''] of template.toString().matchAll(/\{([^{}]*)\}/g)) {
    const parts = EXPRESSION.exec(expression)?.groups;
    if (!parts) return handlerMessages.unmatchable(expression);
    const many = parts.names!.includes(',') && parts.operator !== '?' && parts.operator !== '&';
    if (many) return handlerMessages.manyVariables(parts.names!.split(','));
  }
  if (names.length === 0) return handlerMessages.noVariables();
  if (names.includes('uri')) return handlerMessages.reservedVariable();
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  return twice === undefined ? undefined : handlerMessages.sameVariable(twice);
}

function cacheOf(cache: CacheHints | undefined, origin: string): { cache?: Readonly<CacheHints> } {
  if (cache === undefined) return {};
  const { ttlMs, scope = 'private' } = cache;
  const named = Object.keys(cache).every((name) => CACHE_NAMES.includes(name));
  const fits = named && Number.isSafeInteger(ttlMs) && ttlMs >= 0 && (scope === 'public' || scope === 'private');
  if (!fits) throw new HandlerDefinitionError(origin, handlerMessages.badCache(cache));
  return { cache: Object.freeze({ ttlMs, scope }) };
}
