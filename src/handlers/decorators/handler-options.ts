import type { Annotations, Icon, ToolAnnotations } from '@modelcontextprotocol/server';
import { namesOf } from '../../common/option-checks.js';
import type { Era } from '../../wire/era.js';
import type { HandlerSchema } from '../schema/handler-schema.js';

/** What every handler may say of itself. @publicApi */
export interface DescribedOptions {
  /** For people; without it clients show `name`. */
  title?: string;
  /** For the model: what it is, and when to use it. */
  description?: string;
  icons?: Icon[];
  /**
   * What else clients may know of it.
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
export interface CacheHints {
  /** Milliseconds; 0: to be read again each time. */
  ttlMs: number;
  /**
   * Whether the answer is the same for every caller (`public`) or belongs to the one that asked.
   *
   * @default 'private'
   */
  scope?: 'public' | 'private';
}

/**
 * A tool.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
 * @publicApi
 */
export interface ToolOptions extends DescribedOptions {
  /** Unique in the endpoint: 1 to 128 characters of `A-Z a-z 0-9 _ - .`, says the specification. */
  name: string;
  /** Hints of what the tool does to the world. */
  annotations?: ToolAnnotations;
  /**
   * What the tool takes. Arguments are checked against it, after the guards; the handler gets what the schema makes of
   * them. Its type is not inferred from here; with Zod, write `z.infer<typeof schema>`.
   *
   * A property with `x-mcp-header` is mirrored into a header by clients of 2026-07-28, and the header is checked.
   *
   * @see https://modelcontextprotocol.io/specification/2026-07-28/server/tools#x-mcp-header
   * @default the class of the parameter of `@McpArgs()`; of a method that takes no arguments, nothing
   */
  inputSchema?: HandlerSchema;
  /**
   * What the tool returns, as structured content. Results are checked against it; what the schema makes of them is sent.
   *
   * @default no structured content
   */
  outputSchema?: HandlerSchema;
  /**
   * The view of MCP Apps that shows its results, by its URI: that of an `@AppView()` of the endpoint. A host without views shows
   * the result as that of any tool.
   *
   * @default none
   * @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
   */
  ui?: string | ToolUi;
  /** Bytes of its answer as JSON; `Infinity`: any number. @default that of the endpoint */
  maxResultBytes?: number;
  /** Whether its structured content is repeated as a text block. @default that of the endpoint */
  textMirror?: boolean;
}

/** The view of a tool, and who may call the tool. @publicApi */
export interface ToolUi {
  /** The view that shows its results: the `uri` of an `@AppView()` of the same endpoint. @default none */
  resourceUri?: string;
  /**
   * `model`: the agent sees and calls the tool; `app`: views of this server call it. Hosts see to it.
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
export interface ResourceOptions extends DescribedOptions {
  /** Unique in the endpoint. */
  uri: string;
  name: string;
  mimeType?: string;
  /** Bytes, before any encoding. */
  size?: number;
  /** For whom it is, how important it is, when it changed. */
  annotations?: Annotations;
  /** How long a client may keep what it has read. */
  cache?: CacheHints;
}

/**
 * Origins that a view may reach, such as `https://cdn.example.com` or `https://*.example.com`. Hosts make a Content Security
 * Policy of them; what is left out is not reached at all.
 *
 * @publicApi
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

/** What a view asks the browser for; a host may refuse. @publicApi */
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
  /** An origin that the sandbox keeps, for CORS or OAuth; each host has its own format. @default chosen by the host */
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
export interface ResourceTemplateOptions extends DescribedOptions {
  /** Such as `orders://{id}/lines{?page}`; unique in the endpoint. */
  uriTemplate: string;
  name: string;
  /** If all of them have the same. */
  mimeType?: string;
  annotations?: Annotations;
  /** How long a client may keep what it has read. */
  cache?: CacheHints;
}

/** An argument of a prompt; always a text. @publicApi */
export interface PromptArgumentOptions {
  name: string;
  /** For people. */
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
export interface PromptOptions extends DescribedOptions {
  /** Unique in the endpoint. */
  name: string;
  /**
   * What the prompt takes: an object whose properties are its arguments. Clients send texts, so a number must be coerced
   * (`z.coerce.number()`).
   *
   * @default the class of the parameter of `@McpArgs()`; of a method that takes no arguments, nothing
   */
  inputSchema?: HandlerSchema;
  /** The same without a schema: a list of texts. The required ones must be there. */
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
   * The id of the extension that has the method, such as `com.example/search`. The endpoint declares it, with the settings of
   * its option `extensions`, else `{}`; and a client that did not declare it is refused: in revision 2026-07-28 with -32021,
   * which names it, in a session with -32601.
   *
   * @default none: the method is served to every client
   * @see https://modelcontextprotocol.io/seps/2133-extensions
   */
  extension?: string;
  /** The era that has the method. @default both */
  era?: Era;
}

/** A method of an extension, as `@McpMethod()` was given it. */
export interface MethodOptions extends McpMethodOptions {
  readonly method: string;
  readonly paramsSchema?: HandlerSchema | undefined;
}

/** Proposals for the value of an argument. @publicApi */
export type CompletionValues =
  | readonly string[]
  | {
      /** The first 100 are sent. */
      values: readonly string[];
      /** How many there are in all, if known. */
      total?: number;
      hasMore?: boolean;
    };

/** What the method of a resource gets. @publicApi */
export interface ResourceArgs {
  /** As the client asked for it. */
  readonly uri: string;
}

/**
 * What the method of a resource template gets: the variables by name, as they stand in the URI (not decoded), beside the
 * URI itself.
 *
 * @publicApi
 */
export interface ResourceTemplateArgs extends ResourceArgs {
  readonly [variable: string]: string | string[];
}

const DESCRIBED = { title: true, description: true, icons: true, _meta: true } as const;

export const CACHE_NAMES = namesOf<CacheHints>({ ttlMs: true, scope: true });

/** The options that each decorator takes. */
export const HANDLER_OPTION_NAMES = {
  tool: namesOf<ToolOptions>({
    ...DESCRIBED,
    ...{ name: true, annotations: true, inputSchema: true, outputSchema: true, ui: true },
    ...{ maxResultBytes: true, textMirror: true },
  }),
  resource: namesOf<ResourceOptions>({
    ...DESCRIBED,
    ...{ uri: true, name: true, mimeType: true, size: true, annotations: true, cache: true },
  }),
  view: namesOf<AppViewOptions>({
    ...DESCRIBED,
    ...{ uri: true, name: true, size: true, annotations: true, cache: true },
    ...{ csp: true, permissions: true, domain: true, prefersBorder: true },
  }),
  template: namesOf<ResourceTemplateOptions>({
    ...DESCRIBED,
    ...{ uriTemplate: true, name: true, mimeType: true, annotations: true, cache: true },
  }),
  prompt: namesOf<PromptOptions>({ ...DESCRIBED, ...{ name: true, inputSchema: true, arguments: true } }),
  completion: ['prompt', 'template', 'argument'],
  method: namesOf<MethodOptions>({ method: true, paramsSchema: true, extension: true, era: true }),
} as const;
