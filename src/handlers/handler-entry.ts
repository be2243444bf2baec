import type {
  CompleteResult,
  GetPromptResult,
  InputRequiredResult,
  Prompt,
  ReadResourceResult,
  Resource,
  ResourceTemplateType,
  Tool,
  UriTemplate,
} from '@modelcontextprotocol/server';
import type { McpContext } from '../context/mcp-context.js';
import type { ParamHeader } from '../wire/param-headers.js';
import type { CacheHints } from './definitions/handler-options.js';

/**
 * What an endpoint offers: one entry per tool, resource, template and prompt, whether it was found on a provider or
 * registered at run time. An entry is made once, at start or at registration, and shared by all sessions; what goes over
 * the wire in lists is in it as it is sent, and frozen.
 */
export type HandlerEntry = ToolEntry | ResourceEntry | ResourceTemplateEntry | PromptEntry;

export type HandlerKind = HandlerEntry['kind'];

interface EntryBase<Kind extends string, Wire, Args, Result> {
  readonly kind: Kind;
  /** Unique within its kind: the name of a tool or prompt, the URI of a resource, the URI template of a template. */
  readonly key: string;
  /** What lists show. */
  readonly wire: Readonly<Wire>;
  /** For messages: `OrderTools.find`, or that it was registered at run time. */
  readonly origin: string;
  /**
   * Runs the handler with everything that Nest puts around it: guards, interceptors, pipes (validation among them),
   * filters.
   *
   * @param args as the client sent them
   * @returns the result in the form of the protocol
   * @throws what becomes a JSON-RPC error; what is the tool's own failure is part of its result
   */
  invoke(args: Args, context: McpContext): Promise<Result>;
  /** Whether a list shows the entry to this caller: what its guards say that can say so without arguments. */
  visible(context: McpContext): boolean | Promise<boolean>;
  /**
   * Whether all of its guards let this caller in with these arguments, as they would be asked by `invoke`; nothing else
   * runs. For what a caller gets without a call: news of a resource.
   */
  admits(args: Args, context: McpContext): Promise<boolean>;
  /** What a list is cached by; per caller as soon as guards decide. */
  readonly guarded: boolean;
}

export interface ToolEntry extends EntryBase<'tool', Tool, Record<string, unknown>, unknown> {
  /** Its arguments that modern clients mirror into headers (`x-mcp-header`); frozen, and mostly empty. */
  readonly paramHeaders: readonly ParamHeader[];
}

/** What is read may be kept by clients, for as long as the hints say. */
interface Cached {
  readonly cache?: Readonly<CacheHints>;
}

export interface ResourceEntry
  extends EntryBase<'resource', Resource, { uri: string }, ReadResourceResult | InputRequiredResult>, Cached {}

export interface ResourceTemplateEntry
  extends
    EntryBase<
      'template',
      ResourceTemplateType,
      { uri: string; variables: Record<string, string | string[]> },
      ReadResourceResult | InputRequiredResult
    >,
    Cached {
  readonly template: UriTemplate;
  /** By variable. */
  readonly completions: ReadonlyMap<string, Completion>;
}

export interface PromptEntry extends EntryBase<
  'prompt',
  Prompt,
  Record<string, string>,
  GetPromptResult | InputRequiredResult
> {
  /** By argument. */
  readonly completions: ReadonlyMap<string, Completion>;
}

/** Proposes values for an argument. */
export type Completion = (
  value: string,
  /** The arguments that are known already. */
  others: Readonly<Record<string, string>>,
  context: McpContext,
) => Promise<CompleteResult['completion']>;
