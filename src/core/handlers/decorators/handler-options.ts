import type { Annotations, Icon, ToolAnnotations } from '@modelcontextprotocol/server';
import { count, oneOf, type OptionTable, required, timer } from '../../common/options.js';
import type { McpEra } from '../../protocol/era.js';
import type { McpHandlerSchema } from '../schema/handler-schema.js';

/** Descriptive options of every handler. @internal */
export interface DescribedOptions {
  /** Display name for users; without it clients show `name`. */
  title?: string;
  /** Description for the model: what the handler does, and when to use it. */
  description?: string;
  icons?: Icon[];
  /**
   * Additional metadata for clients.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta
   */
  _meta?: Record<string, unknown>;
}

/**
 * How long a client may keep what it has read.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/server/utilities/caching
 * @publicApi
 */
export interface McpCacheHints {
  /** Milliseconds for which the result may be cached; 0: not at all. */
  ttlMs: number;
  /**
   * Whether the result is the same for every caller (`public`) or for the one that requested it (`private`).
   *
   * @default 'private'
   */
  scope?: 'public' | 'private';
}

/**
 * How long a handler may run, and how many of its calls at a time, in this process and for this endpoint.
 *
 * @internal
 */
export interface LimitedOptions {
  /**
   * Milliseconds that the handler may run: from the moment when its guards have accepted the caller and its arguments
   * are valid until its result is complete, also that of an Observable. Then the signal of the call aborts, and the
   * client gets an error: of a tool a result with `isError`, whose text the model reads, else -32001. Time in which the
   * handler waits for answers of the client (`ctx.elicit()`, `ctx.sample()`, `ctx.roots()`) does not count; in revision
   * 2026-07-28, where it runs again with the answers, each run has the whole time. With `maxConcurrent`, a call that
   * has waited so long for its turn fails too. `requestTimeoutMs` of the endpoint holds in addition.
   *
   * @default no limit
   */
  timeoutMs?: number;
  /**
   * How many calls of the handler run at a time; `{ max, per: 'principal' }`: of each caller, the anonymous callers of
   * a session being one, and all without a session. Further calls wait in their order, for `timeoutMs`; without it
   * until there is a place, the client cancels or disconnects, or `requestTimeoutMs` is over. Calls that wait count for
   * `maxRunningCalls`. Lower: less load on what the handler uses, and longer waiting.
   *
   * @default no limit
   */
  maxConcurrent?: number | HandlerConcurrency;
}

/** How many calls of a handler run at a time, for each caller. @internal */
export interface HandlerConcurrency {
  /** A whole number of at least 1. */
  max: number;
  per: 'principal';
}

/**
 * A tool.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
 * @publicApi
 */
export interface ToolOptions<
  Input extends McpHandlerSchema = McpHandlerSchema,
  Output extends McpHandlerSchema = McpHandlerSchema,
>
  extends DescribedOptions, LimitedOptions {
  /**
   * Unique in the endpoint: 1 to 128 characters of `A-Z a-z 0-9 _ - .`, according to the specification.
   *
   * @default of a route of a controller, the names of both: `orders_find_one` of `OrdersController.findOne`; other tools need one
   */
  name?: string;
  /**
   * Hints about the behaviour of the tool, such as `readOnlyHint`. They are added to those that a route has by its verb.
   *
   * @default of a route: GET `readOnlyHint`, PUT `idempotentHint`, DELETE `idempotentHint` and `destructiveHint`; else none
   */
  annotations?: ToolAnnotations;
  /**
   * Schema of the arguments. They are validated after the guards have run; the handler gets the output of the schema
   * (defaults, coercion). A method whose parameter cannot take them does not compile; with Zod, write `z.infer<typeof schema>`.
   *
   * A property with `x-mcp-header` is mirrored into a header by clients of 2026-07-28, and the header is checked.
   *
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header
   * @default the class of the parameter of `@McpArgs()`; of a route, what its `@Param()`, `@Query()` and `@Body()` take; of a method
   *   that takes no arguments, nothing
   */
  inputSchema?: Input;
  /**
   * Of a route: other names for arguments, by where they stand, such as `{ 'body.id': 'newId' }`, where two places have one name.
   *
   * @default the names of the route
   */
  rename?: Readonly<Record<string, string>>;
  /**
   * Schema of the result, as structured content. Results are validated against it; the output of the schema is sent. A method
   * that returns something else does not compile. `'route'`: what `@SerializeOptions({ schema })` or
   * `@ApiOkResponse({ type })` of the route says.
   *
   * @default no structured content
   */
  outputSchema?: Output | 'route';
  /**
   * Whether a call of the tool may become a task, for clients of 2026-07-28 that declare the extension
   * `io.modelcontextprotocol/tasks`: they get the task at once, and poll for its result. `'optional'` serves other
   * clients without a task; `'required'` refuses those of 2026-07-28 that do not declare it; `'manual'` leaves it to
   * `ctx.startTask()`. Needs `McpTasksModule` of `nestjs-mcp-streamable/tasks`.
   *
   * @default false
   */
  task?: false | 'optional' | 'required' | 'manual' | ToolTaskOptions;
  /**
   * The URI of the MCP Apps view that shows the results: that of an `@AppView()` of the endpoint. A host without
   * support for views shows the result like that of any tool.
   *
   * @default none
   * @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
   */
  ui?: string | ToolUi;
  /** Maximum size in bytes of its result as JSON; `Infinity`: no limit. @default that of the endpoint */
  maxResultBytes?: number;
  /** Whether its structured content is repeated as a text block. @default that of the endpoint */
  textMirror?: boolean;
}

/** Which routes of a controller are tools; without both, all of them. @publicApi */
export interface ToolsOptions {
  /** The names of the methods that are tools. */
  only?: readonly string[];
  /** The names of the methods that are none. */
  except?: readonly string[];
}

/** How calls of a tool become tasks. @internal */
export interface ToolTaskOptions {
  /**
   * `'required'`: a client of 2026-07-28 that does not declare the extension is refused (-32021).
   *
   * @default 'optional'
   */
  support?: 'optional' | 'required';
  /**
   * Milliseconds from the beginning of the handler after which its call becomes a task: faster calls are answered
   * directly. `Infinity`: when the handler calls `ctx.startTask()`.
   *
   * @default 0
   */
  afterMs?: number;
  /**
   * Milliseconds that a task is kept, from its creation. Then the task and its result are removed, and a handler that
   * still runs is aborted.
   *
   * @default the option `ttlMs` of the module
   */
  ttlMs?: number;
  /**
   * Milliseconds that clients should wait between two polls.
   *
   * @default the option `pollIntervalMs` of the module
   */
  pollIntervalMs?: number;
}

/** The view of a tool, and who may call the tool. @internal */
export interface ToolUi {
  /** The view that shows its results: the `uri` of an `@AppView()` of the same endpoint. @default none */
  resourceUri?: string;
  /**
   * `model`: the agent sees and calls the tool; `app`: views of this server call it. Enforced by hosts.
   *
   * @default ['model', 'app']
   */
  visibility?: readonly ('model' | 'app')[];
}

/**
 * A resource with a fixed URI.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources
 * @publicApi
 */
export interface ResourceOptions extends DescribedOptions, LimitedOptions {
  /** Unique in the endpoint. */
  uri: string;
  name: string;
  mimeType?: string;
  /** Size in bytes, before any encoding. */
  size?: number;
  /** Audience, priority and time of the last change. */
  annotations?: Annotations;
  /** How long a client may keep what it has read. */
  cache?: McpCacheHints;
}

/**
 * Origins that a view may reach, such as `https://cdn.example.com` or `https://*.example.com`. Hosts create a Content
 * Security Policy from them; other origins cannot be reached.
 *
 * @internal
 */
export interface AppViewCsp {
  /** For `fetch`, XHR and WebSocket (`connect-src`). */
  connectDomains?: readonly string[];
  /** For scripts, styles, images, fonts and media. */
  resourceDomains?: readonly string[];
  /** For frames inside (`frame-src`). */
  frameDomains?: readonly string[];
  /** For `<base>` (`base-uri`). */
  baseUriDomains?: readonly string[];
}

/** Browser permissions that a view requests; a host may refuse them. @internal */
export interface AppViewPermissions {
  camera?: object;
  microphone?: object;
  geolocation?: object;
  clipboardWrite?: object;
}

/**
 * A view of MCP Apps.
 *
 * @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
 * @publicApi
 */
export interface AppViewOptions extends DescribedOptions, Pick<ResourceOptions, 'annotations' | 'cache' | 'size'> {
  /** Begins with `ui://`; unique in the endpoint. */
  uri: `ui://${string}`;
  /** @default the URI without `ui://` */
  name?: string;
  /** @default nothing of the network */
  csp?: AppViewCsp;
  /** @default none */
  permissions?: AppViewPermissions;
  /** A stable origin for the sandbox, for CORS or OAuth; each host has its own format. @default chosen by the host */
  domain?: string;
  /** Whether the host draws a border around it. @default chosen by the host */
  prefersBorder?: boolean;
}

/**
 * Resources whose URIs follow a template.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#resource-templates
 * @see https://www.rfc-editor.org/rfc/rfc6570
 * @publicApi
 */
export interface ResourceTemplateOptions extends DescribedOptions, LimitedOptions {
  /** Such as `orders://{id}/lines{?page}`; unique in the endpoint. */
  uriTemplate: string;
  name: string;
  /** Media type, if it is the same for all resources of the template. */
  mimeType?: string;
  annotations?: Annotations;
  /** How long a client may keep what it has read. */
  cache?: McpCacheHints;
}

/** The arguments of a method with `@ListResources()`. @publicApi */
export interface McpListResourcesArgs {
  /** The `nextCursor` that the method returned for the page before, as a client sent it back: check it. Absent: the first page. */
  readonly cursor?: string;
  /** How many resources a page has: more than that are shown on several pages, for each of which the method is called. */
  readonly limit: number;
}

/** A resource of a template, as `resources/list` shows it. What is not given is that of the template. @publicApi */
export interface McpListedResource
  extends DescribedOptions, Pick<ResourceOptions, 'annotations' | 'mimeType' | 'size'> {
  /** Matches the template. */
  uri: string;
  /** @default the URI */
  name?: string;
}

/** What a method with `@ListResources()` returns. @publicApi */
export type McpListedResources =
  | readonly McpListedResource[]
  | {
      resources: readonly McpListedResource[];
      /** What the method is called with for the next page; absent: this is the last one. */
      nextCursor?: string | undefined;
    };

/** An argument of a prompt; always a string. @internal */
export interface PromptArgumentOptions {
  name: string;
  /** Display name for users. */
  title?: string;
  description?: string;
  /** @default false */
  required?: boolean;
}

/**
 * A prompt.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
 * @publicApi
 */
export interface PromptOptions<Input extends McpHandlerSchema = McpHandlerSchema>
  extends DescribedOptions, LimitedOptions {
  /** Unique in the endpoint. */
  name: string;
  /**
   * Schema of the arguments: an object whose properties are the arguments. Clients send strings, so a number must be
   * coerced (`z.coerce.number()`).
   *
   * @default the class of the parameter of `@McpArgs()`; of a method that takes no arguments, nothing
   */
  inputSchema?: Input;
  /** The arguments without a schema: all are strings. A call without a required one is refused. */
  arguments?: readonly PromptArgumentOptions[];
}

/** The argument of a prompt, or the variable of a resource template, that is completed. @publicApi */
export type CompleteOptions =
  | {
      /** The name of the prompt. */
      prompt: string;
      argument: string;
    }
  | {
      /** The URI template of the resource template, as written there. */
      template: string;
      argument: string;
    };

/** To which extension a method belongs, and who may call it. @publicApi */
export interface McpMethodOptions {
  /**
   * The id of the extension that has the method, such as `com.example/search`. The endpoint declares it, with the
   * settings of its option `extensions`, else `{}`. A client that did not declare it is refused: in revision 2026-07-28
   * with -32021, which names the extension, in a session with -32601.
   *
   * @default none: the method is served to every client
   * @see https://modelcontextprotocol.io/seps/2133-extensions
   */
  extension?: string;
  /** The era that has the method. @default both */
  era?: McpEra;
}

/** A method of an extension, as `@McpMethod()` was given it. */
export interface MethodOptions extends McpMethodOptions {
  readonly method: string;
  readonly paramsSchema?: McpHandlerSchema | undefined;
}

/** Proposals for the value of an argument. @internal */
export type CompletionValues =
  | readonly string[]
  | {
      /** The first 100 are sent. */
      values: readonly string[];
      /** Total number of matches, if known. */
      total?: number;
      hasMore?: boolean;
    };

/** Arguments of the method of a resource. @internal */
export interface ResourceArgs {
  /** The URI that the client requested. */
  readonly uri: string;
}

/**
 * Arguments of the method of a resource template: the variables by name, as in the URI (not decoded), and the URI
 * itself.
 *
 * @internal
 */
export interface ResourceTemplateArgs extends ResourceArgs {
  readonly [variable: string]: string | string[];
}

const DESCRIBED = { title: true, description: true, icons: true, _meta: true } as const;

const LIMITED = { timeoutMs: true, maxConcurrent: true } as const;

export const CONCURRENCY_TABLE = {
  max: count(required),
  per: oneOf(required, ['principal']),
} satisfies OptionTable<HandlerConcurrency>;

export const TASK_TABLE = {
  support: oneOf('optional', ['optional', 'required']),
  afterMs: timer(0, { min: 0, infinite: true }),
  ttlMs: timer(undefined),
  pollIntervalMs: timer(undefined),
} satisfies OptionTable<ToolTaskOptions>;

export const CACHE_TABLE = {
  ttlMs: count(required, { min: 0 }),
  scope: oneOf('private', ['public', 'private']),
} satisfies OptionTable<McpCacheHints>;

/** The names of an interface's options. One that is missing here does not compile. */
export function namesOf<T>(names: Record<keyof Required<T>, true>): readonly string[] {
  return Object.keys(names);
}

/** The options that each decorator takes. */
export const HANDLER_OPTION_NAMES = {
  tool: namesOf<ToolOptions>({
    ...DESCRIBED,
    ...LIMITED,
    name: true,
    annotations: true,
    inputSchema: true,
    rename: true,
    outputSchema: true,
    task: true,
    ui: true,
    maxResultBytes: true,
    textMirror: true,
  }),
  resource: namesOf<ResourceOptions>({
    ...DESCRIBED,
    ...LIMITED,
    uri: true,
    name: true,
    mimeType: true,
    size: true,
    annotations: true,
    cache: true,
  }),
  view: namesOf<AppViewOptions>({
    ...DESCRIBED,
    uri: true,
    name: true,
    size: true,
    annotations: true,
    cache: true,
    csp: true,
    permissions: true,
    domain: true,
    prefersBorder: true,
  }),
  template: namesOf<ResourceTemplateOptions>({
    ...DESCRIBED,
    ...LIMITED,
    uriTemplate: true,
    name: true,
    mimeType: true,
    annotations: true,
    cache: true,
  }),
  prompt: namesOf<PromptOptions>({ ...DESCRIBED, ...LIMITED, name: true, inputSchema: true, arguments: true }),
  completion: ['prompt', 'template', 'argument'],
  listing: ['uriTemplate'],
  method: namesOf<MethodOptions>({ method: true, paramsSchema: true, extension: true, era: true }),
} as const;
