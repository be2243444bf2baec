import { completionOf, type CompletionSource } from '../entries/completion.js';
import type { EntrySource } from '../entries/entry-source.js';
import type { Completion, PromptEntry, ResourceTemplateEntry } from '../handler-entry.js';
import type { HandlerTable } from '../handler-table.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';

type Completed = 'prompt' | 'template';

interface DeclaredCompletion {
  readonly origin: string;
  readonly argument: string;
  readonly completion: Completion;
}

/** What completes arguments, by the prompt or template that has them. */
export class DeclaredCompletions {
  readonly #byTarget: Readonly<Record<Completed, Map<string, DeclaredCompletion[]>>> = {
    prompt: new Map(),
    template: new Map(),
  };

  /** @throws HandlerDefinitionError when another one completes the argument */
  add(
    kind: Completed,
    name: string,
    argument: string,
    { origin, source, failures }: Pick<EntrySource, 'origin' | 'failures'> & { source: CompletionSource },
  ): void {
    const declared = this.#byTarget[kind].get(name) ?? [];
    this.#byTarget[kind].set(name, declared);
    const other = declared.find((each) => each.argument === argument);
    if (other) {
      const reason = handlerMessages.completedTwice(shownRef(kind, name), argument, other.origin);
      throw new HandlerDefinitionError(origin, reason);
    }
    declared.push({ origin, argument, completion: completionOf(source, { name, origin, failures }) });
  }

  /** By argument. */
  of(kind: Completed, name: string): ReadonlyMap<string, Completion> {
    const declared = this.#byTarget[kind].get(name) ?? [];
    return new Map(declared.map(({ argument, completion }) => [argument, completion]));
  }

  /** @throws HandlerDefinitionError for a completion of what there is not */
  assertUsed(table: HandlerTable): void {
    for (const kind of ['prompt', 'template'] as const) {
      for (const [name, declared] of this.#byTarget[kind]) {
        for (const each of declared) assertTarget(table, kind, name, each);
      }
    }
  }
}

function assertTarget(
  table: HandlerTable,
  kind: Completed,
  name: string,
  { origin, argument }: DeclaredCompletion,
): void {
  const entry = table.get(kind, name);
  const ref = shownRef(kind, name);
  if (!entry) {
    const known = [...table.all(kind)].map(({ key }) => key);
    throw new HandlerDefinitionError(origin, handlerMessages.nothingToComplete(ref, known));
  }
  const known = argumentsOf(entry);
  if (known.includes(argument)) return;
  throw new HandlerDefinitionError(origin, handlerMessages.noSuchArgument(ref, argument, known));
}

function argumentsOf(entry: PromptEntry | ResourceTemplateEntry): string[] {
  if (entry.kind === 'template') return entry.template.variableNames;
  return (entry.wire.arguments ?? []).map(({ name }) => name);
}

function shownRef(kind: Completed, name: string): string {
  return kind === 'prompt' ? `prompt "${name}"` : `resource template "${name}"`;
}
