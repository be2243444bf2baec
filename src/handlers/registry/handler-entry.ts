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
import type { McpContext } from '../../context/mcp-context.js';
import type { ParamHeader } from '../../wire/param-headers.js';
import type { CacheHints } from '../decorators/handler-options.js';
import type { Served } from '../results/handler-outcome.js';

/**
 * What an endpoint offers: one entry per tool, resource, template and prompt, whether it was found on a provider or
 * registered at run time. An entry is made once, at start or at registration, and shared by all sessions; what goes over
 * the wire in lists is in it as it is sent, and frozen.
 */
export type HandlerEntry = ToolEntry | ResourceEntry | ResourceTemplateEntry | PromptEntry;

export type HandlerKind = HandlerEntry['kind'];

interface EntryBase<Kind extends string, Wire, Args, Result> extends Served<Args, Result> {
  readonly kind: Kind;
  /** Unique within its kind: the name of a tool or prompt, the URI of a resource, the URI template of a template. */
  readonly key: string;
  /** What lists show. */
  readonly wire: Readonly<Wire>;
}

export interface ToolEntry extends EntryBase<'tool', Tool, Record<string, unknown>, unknown> {
  /** Its arguments that modern clients mirror into headers (`x-mcp-header`); frozen, and mostly empty. */
  readonly paramHeaders: readonly ParamHeader[];
}

interface ReadEntry<Kind extends string, Wire, Args> extends EntryBase<
  Kind,
  Wire,
  Args,
  ReadResourceResult | InputRequiredResult
> {
  /** What is read may be kept by clients, for as long as the hints say. */
  readonly cache?: Readonly<CacheHints>;
}

export type ResourceEntry = ReadEntry<'resource', Resource, { uri: string }>;

/** What a template is read with. */
export interface TemplateMatch {
  readonly uri: string;
  readonly variables: Record<string, string | string[]>;
}

export interface ResourceTemplateEntry extends ReadEntry<'template', ResourceTemplateType, TemplateMatch> {
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
