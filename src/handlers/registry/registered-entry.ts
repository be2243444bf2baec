import { completionOf } from '../entries/completion.js';
import type { EntrySource } from '../entries/entry-source.js';
import { promptEntry } from '../entries/prompt-entry.js';
import { resourceEntry, templateEntry } from '../entries/resource-entry.js';
import { toolEntry } from '../entries/tool-entry.js';
import type { Completion, HandlerEntry, HandlerKind } from '../handler-entry.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import type { FailureOptions } from '../handlers.options.js';
import { handlerMessages } from '../handlers.messages.js';
import { SchemaCompiler } from '../schema/schema-compiler.js';
import { functionRunner } from './function-runner.js';
import type {
  CompletionFunction,
  HandlerFunction,
  PromptRegistration,
  ResourceRegistration,
  ResourceTemplateRegistration,
  ToolRegistration,
} from './registrations.js';

/** What can be registered, by kind. */
export interface Registrations {
  tool: ToolRegistration<never>;
  resource: ResourceRegistration;
  template: ResourceTemplateRegistration<never>;
  prompt: PromptRegistration<never>;
}

/** Makes an entry of a registration. @throws HandlerDefinitionError */
export function registeredEntry<Kind extends HandlerKind>(
  kind: Kind,
  registration: Registrations[Kind],
  failures: FailureOptions,
): HandlerEntry {
  const origin = originOf(kind, registration);
  const source = sourceOf(registration.handler, origin, failures);
  return (ENTRIES[kind] as EntryMaker<Kind>)(registration, source);
}

type EntryMaker<Kind extends HandlerKind> = (registration: Registrations[Kind], source: EntrySource) => HandlerEntry;

const ENTRIES: { readonly [Kind in HandlerKind]: EntryMaker<Kind> } = {
  tool: toolEntry,
  resource: resourceEntry,
  template: (registration, source) => {
    const entry = templateEntry(registration, source, completionsOf(registration, registration.uriTemplate, source));
    assertCompletable(entry.completions, entry.template.variableNames, source, `resource template "${entry.key}"`);
    return entry;
  },
  prompt: (registration, source) => {
    const entry = promptEntry(registration, source, completionsOf(registration, registration.name, source));
    const names = (entry.wire.arguments ?? []).map(({ name }) => name);
    assertCompletable(entry.completions, names, source, `prompt "${entry.key}"`);
    return entry;
  },
};

/** For messages; the registration has not been looked at yet. */
export function originOf(kind: HandlerKind, registration: object): string {
  const { name, uri, uriTemplate } = registration as Partial<Record<'name' | 'uri' | 'uriTemplate', unknown>>;
  const key = { tool: name, resource: uri, template: uriTemplate, prompt: name }[kind];
  return handlerMessages.registered(kind, key);
}

function sourceOf(handler: unknown, origin: string, failures: FailureOptions): EntrySource {
  if (typeof handler !== 'function') throw new HandlerDefinitionError(origin, handlerMessages.notAHandler(handler));
  return {
    origin,
    failures,
    // Goes when the entry goes.
    compiler: new SchemaCompiler(),
    runner: (validate) => functionRunner(handler as HandlerFunction<never>, origin, validate),
  };
}

function completionsOf(
  { complete = {} }: { complete?: Readonly<Record<string, CompletionFunction>> },
  name: string,
  { origin, failures }: EntrySource,
): ReadonlyMap<string, Completion> {
  return new Map(
    Object.entries(complete).map(([argument, source]) => [argument, completionOf(source, { name, origin, failures })]),
  );
}

function assertCompletable(
  completions: ReadonlyMap<string, Completion>,
  names: readonly string[],
  { origin }: EntrySource,
  ref: string,
): void {
  for (const argument of completions.keys()) {
    if (!names.includes(argument)) {
      throw new HandlerDefinitionError(origin, handlerMessages.noSuchArgument(ref, argument, names));
    }
  }
}
