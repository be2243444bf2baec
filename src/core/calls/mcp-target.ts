/** Kinds of handlers; a `method` belongs to an extension. @internal */
export type McpHandlerKind = 'tool' | 'resource' | 'template' | 'prompt' | 'method';

/**
 * What a call is for: found once, when the call is served, and kept on it. A call of what does not exist has none.
 *
 * A handler is compared by identity. Its `key` is not unique among the callers of a catalogue.
 *
 * @experimental
 */
export interface McpTarget {
  /**
   * The kind of its handler, `feature` for one that a feature adds; of a completion `completion`, of every other method that the endpoint
   * serves `method`.
   */
  readonly kind: McpHandlerKind | 'feature' | 'completion';
  /** The name of the tool or prompt, the URI of the resource, the URI template of the template, the name of the method. */
  readonly key: string;
  /** Where its handler is from, if not from a decorator or the registry: the class of a catalogue. */
  readonly source?: string | undefined;
  /** The schemas of a tool, as lists show them. */
  readonly inputSchema?: object;
  readonly outputSchema?: object | undefined;
}

/** A method or a class. `Reflector` takes no lists that are read-only. */
type MetadataOwner = ((...args: never[]) => unknown) | (abstract new (...args: never[]) => unknown);

/** A handler that a call may be for: a tool, prompt, resource, template, or one of a feature. @experimental */
export interface McpHandlerTarget extends McpTarget {
  /** Names the handler in messages, such as `OrderTools.find`. */
  readonly origin: string;
  /** A template has it. */
  readonly template?: { written(uri: string): Readonly<Record<string, string | string[]>> | null };
  /**
   * The method and its class, whose Nest metadata `Reflector` reads: `reflector.getAllAndOverride(KEY, target.metadata)`. Of a tool of
   * a catalogue they are those of the method that serves it. Empty for functions that are registered, and for handlers of sources.
   */
  readonly metadata: MetadataOwner[];
  /** Returns an option of its decorator or registration, unchecked. */
  option(name: string): unknown;
}
