import { adviceOn } from '../../common/options.js';
import type { FeatureKind } from '../../plugins/feature-kind.js';
import { shown } from '../../protocol/errors.js';
import { McpHandlerDefinitionError } from '../handlers.errors.js';
import type { JsonSchema, McpHandlerSchema, McpResultSchema } from '../schema/handler-schema.js';
import type { McpConfirmDecorator, McpHandlerDecorator } from '../schema/schema-types.js';
import type { ConfirmMessage, ConfirmOptions } from './effect-options.js';
import {
  type AppViewOptions,
  type CompleteOptions,
  HANDLER_OPTION_NAMES,
  namesOf,
  type McpMethodOptions,
  type MethodOptions,
  type PromptOptions,
  type ResourceOptions,
  type ResourceTemplateOptions,
  type ToolOptions,
  type ToolsOptions,
} from './handler-options.js';
import { McpArgs, McpCtx, ROUTE_ARGUMENTS } from './param.decorators.js';

/** A handler of a kind that a feature adds. */
export interface FeatureDeclaration {
  readonly kind: 'feature';
  readonly feature: FeatureKind;
  readonly options: object;
}

/** A decorator declares a handler by one of these. */
export type HandlerDeclaration =
  | { readonly kind: 'tool'; readonly options: ToolOptions }
  | { readonly kind: 'resource'; readonly options: ResourceOptions }
  | { readonly kind: 'view'; readonly options: AppViewOptions }
  | { readonly kind: 'template'; readonly options: ResourceTemplateOptions }
  | { readonly kind: 'prompt'; readonly options: PromptOptions }
  | FeatureDeclaration
  | { readonly kind: 'completion'; readonly options: CompleteOptions }
  | { readonly kind: 'listing'; readonly options: { readonly uriTemplate: string } }
  | { readonly kind: 'method'; readonly options: MethodOptions };

const DECLARATIONS = 'nestjs-mcp-streamable:declarations';

/**
 * Nest marks a provider whose methods are called from outside with this key. Without it Nest does not create the request-scoped
 * enhancers of the provider, and silently skips `APP_GUARD`s among them. No public path of Nest exports it.
 */
const ENTRY_PROVIDER_WATERMARK = '__entryProvider__';

/** Marks a class whose methods are called from outside, so that Nest makes its enhancers. */
export function markEntryProvider(type: object): void {
  Reflect.defineMetadata(ENTRY_PROVIDER_WATERMARK, true, type);
}

/** What the decorator of a feature says about a class whose method serves the handlers that the feature finds. */
export interface ClassMark {
  /** The name of the feature. */
  readonly feature: string;
  /** Names the decorator in messages, such as `@McpCatalogue()`. */
  readonly decorator: string;
  /** The methods that the class needs. */
  readonly methods: readonly string[];
  /** The one of them that serves calls. */
  readonly serving: string;
  /** Decorates its parameters, if none of them is decorated. */
  readonly params: readonly ParameterDecorator[];
  /** Says how its handlers ask before they run, in place of `@Confirm()` on the method. */
  readonly confirm: string;
  readonly options: unknown;
}

const CLASS_MARK = 'nestjs-mcp-streamable:class-mark';
/** The names of features that have marked a class. All copies of this package in a process share them, as they share the marks. */
const MARKED = Symbol.for('nestjs-mcp-streamable:marked');
const marked = ((globalThis as { [MARKED]?: Set<string> })[MARKED] ??= new Set());

/** Returns whether there is a class, in whichever app, that a feature has marked. */
export function hasMarked(feature: string): boolean {
  return marked.has(feature);
}

/** Marks a class for a feature, which finds it by `EndpointClasses`. A class inherits the mark. */
export function markClass(type: abstract new (...args: never[]) => object, mark: ClassMark): void {
  marked.add(mark.feature);
  Reflect.defineMetadata(CLASS_MARK, mark, type);
  markEntryProvider(type);
  const decorated = Reflect.getMetadata(ROUTE_ARGUMENTS, type, mark.serving) as object | undefined;
  if (decorated && Object.keys(decorated).length > 0) return;
  for (const [index, decorate] of mark.params.entries()) decorate(type.prototype as object, mark.serving, index);
}

export function classMarkOf(type: object): ClassMark | undefined {
  return Reflect.getMetadata(CLASS_MARK, type) as ClassMark | undefined;
}

/**
 * Stores the declaration of a handler on its method; handlers are created when the app starts.
 *
 * It is stored on the function, like guards and interceptors, not on the class: replacing the function (an override in
 * a subclass, a decorator that wraps it) removes the handler together with its guards, never the guards alone.
 *
 * @throws McpHandlerDefinitionError when the method is none of instances
 */
export function declareHandler(decorator: string, declaration: HandlerDeclaration): MethodDecorator {
  return (target, key, descriptor) => {
    const method: unknown = (descriptor as PropertyDescriptor | undefined)?.value;
    const isStatic = typeof target === 'function';
    const owner = isStatic ? target : target.constructor;
    const fault = faultOf(decorator, declaration, key, method, isStatic);
    if (fault) throw new McpHandlerDefinitionError(`${owner.name}.${String(key)}`, fault);
    // Decorators run from the last to the first; declarations keep the order of the source.
    const declared = [declaration, ...declarationsOf(method)];
    Reflect.defineMetadata(DECLARATIONS, declared, method as object);
    markEntryProvider(owner);
  };
}

/** Returns the declarations of a method, in the order of the source. */
export function declarationsOf(method: unknown): readonly HandlerDeclaration[] {
  if (typeof method !== 'function') return [];
  return (Reflect.getOwnMetadata(DECLARATIONS, method) as readonly HandlerDeclaration[] | undefined) ?? [];
}

function faultOf(
  decorator: string,
  declaration: HandlerDeclaration,
  key: string | symbol,
  method: unknown,
  isStatic: boolean,
): string | undefined {
  if (typeof key === 'symbol') return `@${decorator}() needs a method with a name; this one is a symbol.`;
  if (typeof method !== 'function') return `@${decorator}() belongs on a method, not on a property or an accessor.`;
  if (isStatic) return `@${decorator}() belongs on a method of instances, not on a static one.`;
  const options: unknown = declaration.options;
  if (typeof options !== 'object' || options === null) {
    return `@${decorator}() takes an object of options; got ${shown(options)}.`;
  }
  const names =
    declaration.kind === 'feature' ? declaration.feature.optionNames : HANDLER_OPTION_NAMES[declaration.kind];
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  return unknown && `@${decorator}() has no option "${unknown}". ${adviceOn(unknown, names)}`;
}

/**
 * Makes a method of a provider or controller a tool.
 *
 * ```diff
 *  const orderId = z.object({ id: z.string().describe('The number on the invoice') });
 *
 * +@Tool({ name: 'find_order', description: 'Finds an order', inputSchema: orderId })
 * +@UseGuards(CanReadOrders)
 *  find(@McpArgs() { id }: z.infer<typeof orderId>, ctx: McpContext) {
 *    return this.orders.find(id, ctx.signal);
 *  }
 * ```
 *
 * Without param decorators it is called with `(args, ctx)`; beside decorated parameters, one without a decorator is the
 * context. Without `inputSchema`, the class of the parameter of `@McpArgs()` is the schema. Guards, interceptors, pipes and filters run around it as
 * around a route: guards first, then the check of the arguments.
 *
 * On a route of a controller, `@Param()`, `@Query()` and `@Body()` are arguments too, and its name, its schema and its hints are
 * those of the route: `@Tool()` is enough.
 *
 * A class inherits the tools of its base class. A method that overrides one is a tool only if it is decorated itself.
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/tools
 * @publicApi
 */
export function Tool<Input extends McpHandlerSchema = JsonSchema, Output extends McpResultSchema = JsonSchema>(
  options?: ToolOptions<Input, Output>,
): McpHandlerDecorator<Input, Output>;
/** Excludes a route from the tools of a controller with `@Tools()`. */
export function Tool(options: false): MethodDecorator;
export function Tool(options: ToolOptions | false = {}): MethodDecorator {
  if (options !== false) return declareHandler('Tool', { kind: 'tool', options });
  return (_target, _key, descriptor) => {
    Reflect.defineMetadata(NO_TOOL, true, (descriptor as PropertyDescriptor | undefined)?.value as object);
  };
}

const NO_TOOL = 'nestjs-mcp-streamable:no-tool';
const TOOLS = 'nestjs-mcp-streamable:tools';
const TOOLS_NAMES = namesOf<ToolsOptions>({ only: true, except: true, middleware: true });

/**
 * Makes each route of a controller a tool, as `@Tool()` does with one.
 *
 * ```diff
 * +@Controller('orders')
 * +@Tools({ except: ['remove'] })
 *  export class OrdersController { … }
 * ```
 *
 * `@Tool({ … })` on a route gives it options of its own, `@Tool(false)` excludes it. A class inherits `@Tools()`.
 *
 * @throws McpHandlerDefinitionError for options that are none; at start for a name that no route has, and for a route
 * that cannot be
 *   a tool
 * @publicApi
 */
export function Tools(options: ToolsOptions = {}): ClassDecorator {
  return (target) => {
    const fault = faultOfTools(options);
    if (fault !== undefined) throw new McpHandlerDefinitionError(target.name, fault);
    Reflect.defineMetadata(TOOLS, options, target);
    markEntryProvider(target);
  };
}

function faultOfTools(options: unknown): string | undefined {
  if (typeof options !== 'object' || options === null)
    return `@Tools() takes an object of options; got ${shown(options)}.`;
  const unknown = Object.keys(options).find((name) => !TOOLS_NAMES.includes(name));
  if (unknown !== undefined) return `@Tools() has no option "${unknown}". ${adviceOn(unknown, TOOLS_NAMES)}`;
  const { middleware, ...named } = options as ToolsOptions;
  if (middleware !== undefined && middleware !== 'ignore')
    return `The option "middleware" of @Tools() can only be 'ignore'; got ${shown(middleware)}.`;
  const lists = Object.entries(named);
  const wrong = lists.find(([, names]) => !Array.isArray(names) || !names.every((name) => typeof name === 'string'));
  if (wrong) return `The option "${wrong[0]}" of @Tools() is a list of names of methods; got ${shown(wrong[1])}.`;
  return lists.length > 1 ? '@Tools() takes "only" or "except", not both.' : undefined;
}

/** Returns the options of `@Tools()` on a class; nothing without it. */
export function toolsOf(type: object): ToolsOptions | undefined {
  return Reflect.getMetadata(TOOLS, type) as ToolsOptions | undefined;
}

/** Returns whether a method has `@Tool(false)`. */
export function isNoTool(method: object): boolean {
  return Reflect.hasOwnMetadata(NO_TOOL, method);
}

const CONFIRM = 'nestjs-mcp-streamable:confirm';

/**
 * Asks the user before the tool runs. It stands beside `@Tool()`, also on a route of a controller.
 *
 * ```diff
 * +@Tool({ name: 'delete_order', inputSchema: orderId })
 * +@Confirm(({ id }: z.infer<typeof orderId>) => `Delete the order ${id}?`)
 *  remove(@McpArgs('id') id: string) {
 *    return this.orders.remove(id);
 *  }
 * ```
 *
 * The question comes after the guards and the check of the arguments. Unless the user says yes, the method does not run, and the model
 * gets a result that says why: also when the client cannot ask its user. One answer is good for one call with these
 * arguments. The option `confirm` of `@Tool()` says the same, and knows the type of the arguments.
 *
 * A client can answer by itself, without a user: the answer proves no more than that the client gave it.
 *
 * @param message the question, a text in which `{id}` stands for the argument `id`, or a function of the validated arguments and the
 *   context that returns it
 * @throws McpHandlerDefinitionError for a message that is neither, and at start for a method that is no tool
 * @see https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation
 * @publicApi
 */
// oxlint-disable-next-line typescript/no-explicit-any -- so that the function may name the arguments
export function Confirm<Args = any>(
  message: string | ConfirmMessage<Args>,
  options: ConfirmOptions = {},
): McpConfirmDecorator<NoInfer<Args>> {
  return (target, key) => {
    const origin = `${target.constructor.name}.${String(key)}`;
    if (typeof message !== 'function' && (typeof message !== 'string' || message.trim() === '')) {
      const reason = `@Confirm() takes the question for the user, or a function that returns it; got ${shown(message)}.`;
      throw new McpHandlerDefinitionError(origin, reason);
    }
    // It is stored for the member, not on the function: a decorator that wraps the function must not remove the question.
    Reflect.defineMetadata(CONFIRM, { ...options, message }, target, key);
  };
}

/** Returns the option `confirm` that `@Confirm()` gives to a method; a method that overrides it has its own. */
export function confirmOf(prototype: object, methodName: string): ToolOptions['confirm'] {
  for (let owner: object | null = prototype; owner; owner = Object.getPrototypeOf(owner) as object | null) {
    if (!Object.hasOwn(owner, methodName)) continue;
    return Reflect.getOwnMetadata(CONFIRM, owner, methodName) as ToolOptions['confirm'];
  }
  return undefined;
}

/**
 * Makes a method the reader of a resource with a fixed URI. It is called with `({ uri }, ctx)`, see `ResourceArgs`.
 *
 * ```diff
 * +@Resource({ uri: 'orders://terms', name: 'terms', mimeType: 'text/markdown' })
 *  terms(): Promise<string> {
 *    return readFile('terms.md', 'utf8');
 *  }
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources
 * @publicApi
 */
export function Resource(options: ResourceOptions): MethodDecorator {
  return declareHandler('Resource', { kind: 'resource', options });
}

/**
 * Makes a method the view of MCP Apps that tools name by `ui`: it returns a document of HTML, which the host shows in a sandboxed
 * frame. It is a resource of the type `text/html;profile=mcp-app`, called with `({ uri }, ctx)`.
 *
 * ```diff
 * +@AppView({ uri: 'ui://weather/chart', csp: { connectDomains: ['https://api.weather.example'] } })
 *  chart(): Promise<string> {
 *    return readFile('chart.html', 'utf8');
 *  }
 *
 * +@Tool({ name: 'forecast', ui: 'ui://weather/chart' })
 *  forecast(): object { … }
 * ```
 *
 * The start fails when a tool names a view that does not exist.
 *
 * @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx
 * @publicApi
 */
export function AppView(options: AppViewOptions): MethodDecorator {
  return declareHandler('AppView', { kind: 'view', options });
}

/**
 * Makes a method the reader of all resources whose URI matches a template. Its arguments are the variables of the
 * template, and `uri`, see `ResourceTemplateArgs`. A resource with exactly that URI takes precedence over a template,
 * and of two templates the one that was found first.
 *
 * ```diff
 * +@ResourceTemplate({ uriTemplate: 'orders://{id}', name: 'order', mimeType: 'application/json' })
 *  order(@McpArgs('id') id: string) {
 *    return this.orders.find(id);
 *  }
 * ```
 *
 * @see https://www.rfc-editor.org/rfc/rfc6570
 * @publicApi
 */
export function ResourceTemplate(options: ResourceTemplateOptions): MethodDecorator {
  return declareHandler('ResourceTemplate', { kind: 'template', options });
}

/**
 * Makes a method list the resources of a template of the same endpoint for one caller: they are in `resources/list`,
 * behind those with a fixed URI. It is called with `({ cursor, limit }, ctx)`, see `McpListResourcesArgs`, and returns
 * {@link McpListedResources} or a promise of them.
 *
 * ```diff
 * +@ResourceTemplate({ uriTemplate: 'notes://{id}', name: 'note', mimeType: 'text/markdown' })
 *  note(@McpArgs('id') id: string) { … }
 *
 * +@ListResources('notes://{id}')
 *  async list(_page: McpListResourcesArgs, { principal }: McpContext): Promise<McpListedResource[]> {
 *    const notes = await this.notes.of(principal);
 *    return notes.map(({ id, title }) => ({ uri: `notes://${id}`, name: title }));
 *  }
 * ```
 *
 * Its guards decide who gets the list, and those of the template's method which resources are in it. When it fails, so does
 * `resources/list`.
 *
 * @param uriTemplate the template as it is written in `@ResourceTemplate()`
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/resources#listing-resources
 * @publicApi
 */
export function ListResources(uriTemplate: string): MethodDecorator {
  return declareHandler('ListResources', { kind: 'listing', options: { uriTemplate } });
}

/**
 * Makes a method a prompt. It is called with `(args, ctx)`.
 *
 * ```diff
 * +@Prompt({ name: 'review', inputSchema: z.object({ language: z.string(), code: z.string() }) })
 *  review(@McpArgs() { language, code }: { language: string; code: string }) {
 *    return `Review this ${language} code:\n\n${code}`;
 *  }
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/prompts
 * @publicApi
 */
export function Prompt<Input extends McpHandlerSchema = JsonSchema>(
  options: PromptOptions<Input>,
): McpHandlerDecorator<Input, JsonSchema> {
  return declareHandler('Prompt', { kind: 'prompt', options }) as McpHandlerDecorator<Input, JsonSchema>;
}

/**
 * Makes a method propose values for an argument of a prompt, or a variable of a resource template, of the same
 * endpoint. It is called with `(value, others, ctx)`: the input of the user so far, the arguments that are already
 * known, the context. It returns {@link CompletionValues} or a promise of them; the first 100 are sent. With param
 * decorators, `value` and `others` are its arguments: `@McpArgs('value')`.
 *
 * ```diff
 * +@Complete({ prompt: 'review', argument: 'language' })
 *  languages(value: string): string[] {
 *    return LANGUAGES.filter((language) => language.startsWith(value));
 *  }
 * ```
 *
 * @see https://modelcontextprotocol.io/specification/2025-11-25/server/utilities/completion
 * @publicApi
 */
export function Complete(options: CompleteOptions): MethodDecorator {
  const declare = declareHandler('Complete', { kind: 'completion', options });
  return (target, key, descriptor) => {
    declare(target, key, descriptor);
    // Decorators of parameters run first, so it is known whether there are any.
    const decorated = Reflect.getMetadata(ROUTE_ARGUMENTS, target.constructor, key) as object | undefined;
    if (decorated && Object.keys(decorated).length > 0) return;
    McpArgs('value')(target, key, 0);
    McpArgs('others')(target, key, 1);
    McpCtx()(target, key, 2);
  };
}

/**
 * Makes a method serve a request of an extension, which the specification does not have. It is called with
 * `(params, ctx)`, with the same guards, interceptors, pipes and filters; it returns the result, an object.
 *
 * ```diff
 *  const query = z.object({ text: z.string() });
 *
 * +@McpMethod('acme/search', query, { extension: 'com.acme/search' })
 *  search(@McpArgs() { text }: z.infer<typeof query>, ctx: McpContext) {
 *    return { hits: await this.index.find(text, ctx.signal) };
 *  }
 * ```
 *
 * It can report progress and be cancelled; in revision 2026-07-28 it cannot ask the client, as a tool can.
 *
 * @param method `prefix/name`, with your own prefix: prefixes of the specification are refused at start
 * @param schema of `params`, without `_meta`. @default the class of the parameter of `@McpArgs()`; of a method that takes no
 *   params, nothing
 * @throws McpHandlerDefinitionError when the method is none of instances; at start for a name that is taken or reserved
 * @see https://modelcontextprotocol.io/seps/2133-extensions
 * @publicApi
 */
export function McpMethod(method: string, schema?: McpHandlerSchema, options: McpMethodOptions = {}): MethodDecorator {
  return declareHandler('McpMethod', { kind: 'method', options: { ...options, method, paramsSchema: schema } });
}

/** Names the endpoints of the handlers of a class. */
export interface McpHandlersOptions {
  /** The option `name` of an endpoint, or of several. */
  endpoint: string | readonly string[];
}

const ENDPOINTS = 'nestjs-mcp-streamable:endpoints';

/**
 * Assigns the handlers of a class to an endpoint, in an app with several. Without it, or
 * `McpStreamableModule.forFeature()`, they belong to the endpoint without a name.
 *
 * ```diff
 * +@Injectable()
 * +@McpHandlers({ endpoint: 'admin' })
 *  export class AdminTools { … }
 * ```
 *
 * A class inherits it.
 *
 * @throws McpHandlerDefinitionError unless it is a name, or names
 * @publicApi
 */
export function McpHandlers({ endpoint }: McpHandlersOptions): ClassDecorator {
  const names: unknown = typeof endpoint === 'string' ? [endpoint] : endpoint;
  return (target) => {
    // The check also refuses `undefined`, the result of a circular import: it must not mean "the default endpoint".
    const valid = Array.isArray(names) && names.length > 0 && names.every((name) => typeof name === 'string');
    if (!valid) {
      const reason = `@McpHandlers() takes the name of an endpoint, or several names; got ${shown(endpoint)}.`;
      throw new McpHandlerDefinitionError(target.name, reason);
    }
    Reflect.defineMetadata(ENDPOINTS, names, target);
  };
}

/** Returns the endpoints that a class names. */
export function endpointsOf(target: object): readonly string[] {
  return (Reflect.getMetadata(ENDPOINTS, target) as readonly string[] | undefined) ?? [];
}
