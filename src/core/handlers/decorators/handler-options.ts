import type { Annotations, Icon, ToolAnnotations } from '@modelcontextprotocol/server';
import { count, oneOf, type OptionTable, required } from '../../common/options.js';
import type { McpEra } from '../../protocol/era.js';
import type { McpCacheHints } from '../handlers.options.js';
import type { McpHandlerSchema, McpResultSchema } from '../schema/handler-schema.js';
import type { ConfirmMessage, EffectArguments, IdempotencyOptions, ToolConfirmOptions } from './effect-options.js';
import type { NeededExtension } from '../../plugins/feature-kind.js';
import { NEEDED_BY_TASK, type ToolTaskOptions } from './task-options.js';

/** These options describe every handler. @internal */
export interface DescribedOptions {
  /** Sets the name that clients show to users; without it they show `name`. */
  title?: string;
  /** Tells the model what the handler does, and when to use it. */
  description?: string;
  icons?: Icon[];
  /**
   * Adds metadata for clients.
   *
   * @see https://modelcontextprotocol.io/specification/2025-11-25/basic#_meta
   */
  _meta?: Record<string, unknown>;
}

/**
 * Limits how long a handler may run, and how many of its calls run at a time, in this process and for this endpoint.
 *
 * @internal
 */
export interface LimitedOptions {
  /**
   * Limits the milliseconds that the handler may run. The time begins when its guards have accepted the caller and its
   * arguments are valid. It ends when its result is complete, also that of an Observable. After this time, the signal
   * of the call aborts, and the client gets an error: for a tool a result with `isError`, whose text the model reads,
   * and otherwise -32001. Time in which the handler waits for answers of the client (`ctx.elicit()`, `ctx.sample()`,
   * `ctx.roots()`) does not count. In revision 2026-07-28 the handler runs again with the answers, and each run has the
   * whole time. With `maxConcurrent`, a call that waits so long for its turn fails too. `requestTimeoutMs` of the
   * endpoint applies in addition.
   *
   * @default no limit
   */
  timeoutMs?: number;
  /**
   * Limits the number of calls of the handler that run at a time. `{ max, per: 'principal' }` counts the calls of each
   * caller separately: the anonymous callers of a session are one caller, and so are all anonymous callers without a
   * session. Further calls wait in their order, for `timeoutMs`. Without `timeoutMs` they wait until there is a place,
   * the client cancels or disconnects, or `requestTimeoutMs` has passed. Calls that wait count for `maxRunningCalls`.
   * With a lower value there is less load on the resources of the handler, and calls wait longer.
   *
   * @default no limit
   */
  maxConcurrent?: number | HandlerConcurrency;
}

/** Limits how many calls of a handler run at a time, for each caller. @internal */
export interface HandlerConcurrency {
  /** A whole number of at least 1. */
  max: number;
  per: 'principal';
}

/**
 * The options of a tool.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
 * @publicApi
 */
export interface ToolOptions<
  Input extends McpHandlerSchema = McpHandlerSchema,
  Output extends McpResultSchema = McpResultSchema,
>
  extends DescribedOptions, LimitedOptions {
  /**
   * The name is unique in the endpoint: 1 to 128 characters of `A-Z a-z 0-9 _ - .`, according to the specification.
   *
   * @default of a route of a controller, the names of both: `orders_find_one` of `OrdersController.findOne`; other tools need one
   */
  name?: string;
  /**
   * Sets hints that describe the behaviour of the tool, such as `readOnlyHint`. They are added to the hints that a
   * route has by its verb.
   *
   * @default of a route: GET `readOnlyHint`, PUT `idempotentHint`, DELETE `idempotentHint` and `destructiveHint`; else none
   */
  annotations?: ToolAnnotations;
  /**
   * Sets the schema of the arguments. They are validated after the guards have run, and the handler gets the output of
   * the schema (defaults, coercion). A method whose parameter does not fit the schema does not compile; with Zod, write
   * `z.infer<typeof schema>`.
   *
   * A property with `x-mcp-header` is mirrored into a header by clients of 2026-07-28, and the header is checked.
   *
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header
   * @default the class of the parameter of `@McpArgs()`; of a route, what its `@Param()`, `@Query()` and `@Body()` take; of a method
   *   that takes no arguments, nothing
   */
  inputSchema?: Input;
  /**
   * Renames arguments of a route by their place, such as `{ 'body.id': 'newId' }`, if two places have the same name.
   *
   * @default the names of the route
   */
  rename?: Readonly<Record<string, string>>;
  /**
   * Says that the tool does not need the middleware of its route, which does not run for calls of the tool. Without it
   * the app does not start if middleware that `configure()` of a module applies runs for the route, and not for the
   * endpoint.
   *
   * @default the app does not start
   */
  middleware?: 'ignore';
  /**
   * Sets the schema of the result, which then is structured content: any JSON. Results are validated against it, and the output
   * of the schema is sent. Clients of 2025 get a value that is no object as `{ result: … }`. A method that returns another type does not compile. `'route'` takes the schema from
   * `@SerializeOptions({ schema })` or `@ApiOkResponse({ type })` of the route.
   *
   * @default no structured content
   */
  outputSchema?: Output | 'route';
  /**
   * Decides whether a call of the tool may become a task, for clients of 2026-07-28 that declare the extension
   * `io.modelcontextprotocol/tasks`: they get the task at once, and poll for its result. `'optional'` serves other
   * clients without a task; `'required'` refuses those of 2026-07-28 that do not declare it; `'manual'` leaves it to
   * `ctx.startTask()`. The option needs `McpTasksModule` of `nestjs-mcp-streamable/tasks`.
   *
   * @default false
   */
  task?: false | 'optional' | 'required' | 'manual' | ToolTaskOptions;
  /**
   * Names the MCP Apps view that shows the results, by the URI of an `@AppView()` of the endpoint. A host without
   * support for views shows the result like that of any tool.
   *
   * @default none
   * @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
   */
  ui?: string | ToolUi;
  /**
   * Sets a question that the user must answer with yes before the tool runs, such as
   * `` ({ id }) => `Delete the order ${id}?` ``; `@Confirm()` says the same. In a text, `{id}` stands for the argument `id`, as JSON. If a
   * client cannot ask its user, the call is refused.
   *
   * @default the tool runs without a question
   */
  confirm?: string | ConfirmMessage<EffectArguments<Input>> | ToolConfirmOptions<EffectArguments<Input>>;
  /**
   * Runs repeats of a call once: the first call runs, and repeats get its result. Calls of one caller with the same key are
   * repeats of each other.
   *
   * @default each call runs
   */
  idempotency?: IdempotencyOptions<EffectArguments<Input>>;
  /**
   * Limits the values in the arguments: items of lists and members of objects; an empty list or object counts once more.
   * A call with more is refused before its arguments are checked. A higher limit than the default lets one call use more
   * time and memory. The whole message has the limit `maxBodyValues` of the endpoint too.
   *
   * @default 5000 if the library of the schema looks for all problems in a list: class-validator, Valibot, Zod below 4.6,
   *   and Zod for lists of what has checks (`z.array(z.string().min(1))`), records, transforms and strict objects; else none
   */
  maxValues?: number;
  /** Limits the result, in bytes of JSON. `Infinity` disables the limit. @default that of the endpoint */
  maxResultBytes?: number;
  /** Decides whether structured content is repeated as a text block. @default that of the endpoint */
  textMirror?: boolean;
}

/** Decides which routes of a controller are tools; without `only` and `except`, all of them are. @publicApi */
export interface ToolsOptions {
  /** Names the methods that are tools. */
  only?: readonly string[];
  /** Names the methods that are not tools. */
  except?: readonly string[];
  /** Says for all tools of the controller what `middleware` of `@Tool()` says for one. @default the app does not start */
  middleware?: 'ignore';
}

/** Names the view of a tool, and decides who may call the tool. @internal */
export interface ToolUi {
  /** Names the view that shows the results, by the `uri` of an `@AppView()` of the same endpoint. @default none */
  resourceUri?: string;
  /**
   * Decides who may call the tool. With `model` the agent sees and calls it; with `app` views of this server call it.
   * Hosts enforce this.
   *
   * @default ['model', 'app']
   */
  visibility?: readonly ('model' | 'app')[];
}

/**
 * The options of a resource with a fixed URI.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources
 * @publicApi
 */
export interface ResourceOptions extends DescribedOptions, LimitedOptions {
  /** The URI is unique in the endpoint. */
  uri: string;
  name: string;
  mimeType?: string;
  /** Says how many bytes the content has, before any encoding. */
  size?: number;
  /** Sets audience, priority and time of the last change. */
  annotations?: Annotations;
  /** Says how long a client may keep what it has read. */
  cache?: McpCacheHints;
}

/**
 * Origins that a view may reach, such as `https://cdn.example.com` or `https://*.example.com`. Hosts create a Content
 * Security Policy from them; other origins cannot be reached.
 *
 * @internal
 */
export interface AppViewCsp {
  /** Lists the origins for `fetch`, XHR and WebSocket (`connect-src`). */
  connectDomains?: readonly string[];
  /** Lists the origins for scripts, styles, images, fonts and media. */
  resourceDomains?: readonly string[];
  /** Lists the origins for frames inside (`frame-src`). */
  frameDomains?: readonly string[];
  /** Lists the origins for `<base>` (`base-uri`). */
  baseUriDomains?: readonly string[];
}

/** A view requests these browser permissions; a host may refuse them. @internal */
export interface AppViewPermissions {
  camera?: object;
  microphone?: object;
  geolocation?: object;
  clipboardWrite?: object;
}

/**
 * The options of a view of MCP Apps.
 *
 * @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
 * @publicApi
 */
export interface AppViewOptions extends DescribedOptions, Pick<ResourceOptions, 'annotations' | 'cache' | 'size'> {
  /** The URI begins with `ui://`, and is unique in the endpoint. */
  uri: `ui://${string}`;
  /** @default the URI without `ui://` */
  name?: string;
  /** @default nothing of the network */
  csp?: AppViewCsp;
  /** @default none */
  permissions?: AppViewPermissions;
  /** Sets a stable origin for the sandbox, for CORS or OAuth, in the format of the host. @default chosen by the host */
  domain?: string;
  /** Decides whether the host draws a border around the view. @default chosen by the host */
  prefersBorder?: boolean;
}

/**
 * The options of resources whose URIs follow a template.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#resource-templates
 * @see https://www.rfc-editor.org/rfc/rfc6570
 * @publicApi
 */
export interface ResourceTemplateOptions extends DescribedOptions, LimitedOptions {
  /**
   * The template, such as `orders://{id}/lines{?page}`, is unique in the endpoint. Variables are decoded; those of a query are
   * optional.
   *
   * @see https://www.rfc-editor.org/rfc/rfc6570
   */
  uriTemplate: string;
  name: string;
  /** The media type, if it is the same for all resources of the template. */
  mimeType?: string;
  annotations?: Annotations;
  /** Says how long a client may keep what it has read. */
  cache?: McpCacheHints;
}

/** A method with `@ListResources()` gets these arguments. @publicApi */
export interface McpListResourcesArgs {
  /**
   * Has the `nextCursor` that the method returned for the page before. The client has sent it back, so check it. It is
   * absent for the first page.
   */
  readonly cursor?: string;
  /**
   * A page has at most this number of resources. If there are more, they are shown on several pages, and the method is
   * called for each page.
   */
  readonly limit: number;
}

/** A resource of a template, as `resources/list` shows it. Fields that are absent come from the template. @publicApi */
export interface McpListedResource
  extends DescribedOptions, Pick<ResourceOptions, 'annotations' | 'mimeType' | 'size'> {
  /** The URI matches the template. */
  uri: string;
  /** @default the URI */
  name?: string;
}

/** A method with `@ListResources()` returns these values. @publicApi */
export type McpListedResources =
  | readonly McpListedResource[]
  | {
      resources: readonly McpListedResource[];
      /** The method gets it as `cursor` for the next page; absent: this is the last one. */
      nextCursor?: string | undefined;
    };

/** An argument of a prompt is always a string. @internal */
export interface PromptArgumentOptions {
  name: string;
  title?: string;
  description?: string;
  /** @default false */
  required?: boolean;
}

/**
 * The options of a prompt.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
 * @publicApi
 */
export interface PromptOptions<Input extends McpHandlerSchema = McpHandlerSchema>
  extends DescribedOptions, LimitedOptions {
  /** The name is unique in the endpoint. */
  name: string;
  /**
   * Sets the schema of the arguments: an object whose properties are the arguments. Clients send strings, so a number
   * must be coerced (`z.coerce.number()`).
   *
   * @default the class of the parameter of `@McpArgs()`; nothing for a method that takes no arguments
   */
  inputSchema?: Input;
  /** Declares the arguments without a schema: all are strings. A call without a required argument is refused. */
  arguments?: readonly PromptArgumentOptions[];
}

/** The argument of a prompt, or the variable of a resource template, that is completed. @publicApi */
export type CompleteOptions =
  | {
      prompt: string;
      argument: string;
    }
  | {
      /** The URI template of the resource template, as it is written there. */
      template: string;
      argument: string;
    };

/** Says to which extension a method belongs, and which clients may call it. @publicApi */
export interface McpMethodOptions {
  /**
   * Names the extension that has the method by its id, such as `com.example/search`. The endpoint declares it, with the
   * settings of its option `extensions`, else `{}`. A client that did not declare the extension is refused: in revision
   * 2026-07-28 with -32021, which names the extension, and in a session with -32601.
   *
   * @default none: the method is served to every client
   * @see https://modelcontextprotocol.io/seps/2133-extensions
   */
  extension?: string;
  /** Names the era that has the method. @default both */
  era?: McpEra;
}

/** A method of an extension, with the arguments of `@McpMethod()`. */
export interface MethodOptions extends McpMethodOptions {
  readonly method: string;
  readonly paramsSchema?: McpHandlerSchema | undefined;
}

/** A completion returns these proposals for the value of an argument. @internal */
export type CompletionValues =
  | readonly string[]
  | {
      /** The first 100 values are sent. */
      values: readonly string[];
      /** The total number of matches, if it is known. */
      total?: number;
      hasMore?: boolean;
    };

/** The method of a resource gets these arguments. @internal */
export interface ResourceArgs {
  readonly uri: string;
}

/**
 * The method of a resource template gets these arguments: the variables by name, decoded, and the URI itself. Those of a
 * query may be absent.
 *
 * @internal
 */
export interface ResourceTemplateArgs extends ResourceArgs {
  readonly [variable: string]: string | string[];
}

const DESCRIBED = { title: true, description: true, icons: true, _meta: true } as const;

export const LIMITED = { timeoutMs: true, maxConcurrent: true } as const;

export const CONCURRENCY_TABLE = {
  max: count(required),
  per: oneOf(required, ['principal']),
} satisfies OptionTable<HandlerConcurrency>;

/** Returns the names of an interface's options. An option that is missing here does not compile. */
export function namesOf<T>(names: Record<keyof Required<T>, true>): readonly string[] {
  return Object.keys(names);
}

export const HANDLER_OPTION_NAMES = {
  tool: namesOf<ToolOptions>({
    ...DESCRIBED,
    ...LIMITED,
    name: true,
    annotations: true,
    inputSchema: true,
    rename: true,
    middleware: true,
    outputSchema: true,
    task: true,
    ui: true,
    confirm: true,
    idempotency: true,
    maxResultBytes: true,
    maxValues: true,
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

/** These options of `@Tool()` have no effect without an extension, unless they are `false`. */
export const OPTIONS_OF_EXTENSIONS: Readonly<Record<string, NeededExtension>> = { task: NEEDED_BY_TASK };
