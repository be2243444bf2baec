import { Inject, Injectable } from '@nestjs/common';
import { isThenable, type MaybePromise } from '../../common/promises.js';
import type { McpCall } from '../../calls/mcp-call.js';
import type { McpHandlerTarget } from '../../calls/mcp-target.js';
import { logger } from '../../calls/operator-log.js';
import type { HandlerSource } from '../../plugins/handler-source.js';
import { type EntryOf, HandlerTable, type ListedKind } from './handler-table.js';
import { keyOf } from './uri-template.js';

/** So many handlers are named in the log that are left out because of their names. */
const MAX_REMARKS = 100;

/** What `find` gives for a kind: for a resource also the template that matches its URI. */
export type Found<Kind extends ListedKind> = Kind extends 'resource' ? EntryOf<'resource' | 'template'> : EntryOf<Kind>;

/**
 * # The sources of an endpoint, in the order in which they are asked
 *
 *     table (decorators, McpRegistry) ──▶ sources of plugins, in the order in which they were added
 *
 * The first one that has a key serves it.
 */
@Injectable()
export class EndpointSources {
  readonly #added: HandlerSource[] = [];
  readonly #remarks = new Set<string>();

  constructor(@Inject(HandlerTable) readonly table: HandlerTable) {}

  /** The sources behind the table. */
  get added(): readonly HandlerSource[] {
    return this.#added;
  }

  /** Adds a source, at start. */
  add(source: HandlerSource): void {
    this.#added.push(source);
  }

  /** Returns whether a list of this kind depends on its caller, so that no cache may share it. */
  perCaller(kind: ListedKind): boolean {
    return this.table.perCaller(kind) || this.#added.some((source) => source.perCaller(kind));
  }

  /** Returns whether sources behind the table may have handlers of a kind. */
  mayHave(kind: ListedKind): boolean {
    return this.#added.some((source) => source.perCaller(kind) !== undefined);
  }

  /**
   * Finds a handler behind those of the table.
   *
   * @returns a promise while a source asks for it; `undefined`: there is none
   */
  find<Kind extends ListedKind>(kind: Kind, key: string, call: McpCall): MaybePromise<Found<Kind> | undefined> {
    if (this.#added.length === 0) return undefined;
    return firstOf(this.#added, keyOf(kind, key), call, kind) as MaybePromise<Found<Kind> | undefined>;
  }

  /** Returns whether an earlier source has the key of an entry, which the log says once. @param sources those before */
  async isTaken(entry: McpHandlerTarget, call: McpCall, sources: readonly HandlerSource[]): Promise<boolean> {
    const kind = entry.kind as ListedKind;
    const first = await firstOf(sources, keyOf(kind, entry.key), call, kind);
    if (!first) return false;
    const remark = `${kind} ${entry.origin} is left out, because ${first.origin} has the same name.`;
    if (!this.#remarks.has(remark) && this.#remarks.size < MAX_REMARKS) {
      this.#remarks.add(remark);
      logger.warn(`The ${remark}`);
    }
    return true;
  }
}

/** Asks sources for a handler, one after the other: synchronously while they answer so. */
function firstOf(
  sources: readonly HandlerSource[],
  key: string,
  call: McpCall,
  kind: ListedKind,
): MaybePromise<McpHandlerTarget | undefined> {
  for (const [index, source] of sources.entries()) {
    const found = source.find(key, call, kind);
    if (isThenable(found)) {
      return found.then((entry) =>
        entry && serves(entry, key, kind) ? entry : firstOf(sources.slice(index + 1), key, call, kind),
      );
    }
    if (found && serves(found, key, kind)) return found;
  }
  return undefined;
}

/** Returns whether a handler serves a key: a source may give a template for a URI that no template matches (D42). */
function serves(found: McpHandlerTarget, key: string, kind: ListedKind): boolean {
  if (kind !== 'resource' || found.kind !== 'template') return true;
  return (found as unknown as EntryOf<'template'>).template.match(key) !== null;
}
