import { adviceOn } from '../../common/option-checks.js';
import { HandlerDefinitionError } from '../handlers.errors.js';
import { handlerMessages } from '../handlers.messages.js';
import {
  type CompleteOptions,
  HANDLER_OPTION_NAMES,
  type PromptOptions,
  type ResourceOptions,
  type ResourceTemplateOptions,
  type ToolOptions,
} from '../definitions/handler-options.js';

/** What a decorator said of a method. */
export type HandlerDeclaration =
  | { readonly kind: 'tool'; readonly options: ToolOptions }
  | { readonly kind: 'resource'; readonly options: ResourceOptions }
  | { readonly kind: 'template'; readonly options: ResourceTemplateOptions }
  | { readonly kind: 'prompt'; readonly options: PromptOptions }
  | { readonly kind: 'completion'; readonly options: CompleteOptions };

const DECLARATIONS = 'nestjs-mcp-streamable:declarations';

/**
 * Nest's mark for a provider whose methods are called from outside. Without it Nest does not make the request-scoped
 * enhancers of the provider, and `APP_GUARD`s among them are silently skipped. Nest exports it from no public path.
 */
const ENTRY_PROVIDER_WATERMARK = '__entryProvider__';

/**
 * Writes down that a method is a handler; nothing else happens until the app starts.
 *
 * On the function, where Nest keeps guards and interceptors, not on the class: what replaces the function (an override in
 * a subclass, a decorator that wraps it) then takes the handler away together with its guards, never the guards alone.
 *
 * @throws HandlerDefinitionError when it is no method of instances
 */
export function declareHandler(decorator: string, declaration: HandlerDeclaration): MethodDecorator {
  return (target, key, descriptor) => {
    const method: unknown = (descriptor as PropertyDescriptor | undefined)?.value;
    const static_ = typeof target === 'function';
    const owner = static_ ? target : target.constructor;
    const fault = faultOf(decorator, { key, method, static_, declaration });
    if (fault) throw new HandlerDefinitionError(`${owner.name}.${String(key)}`, fault);
    // Decorators run from the last to the first; the order of the source is what counts.
    const declared = [declaration, ...declarationsOf(method)];
    Reflect.defineMetadata(DECLARATIONS, declared, method as object);
    Reflect.defineMetadata(ENTRY_PROVIDER_WATERMARK, true, owner);
  };
}

/** What the decorators said of a method, in the order of the source. */
export function declarationsOf(method: unknown): readonly HandlerDeclaration[] {
  if (typeof method !== 'function') return [];
  return (Reflect.getOwnMetadata(DECLARATIONS, method) as readonly HandlerDeclaration[] | undefined) ?? [];
}

interface Decorated {
  readonly key: string | symbol;
  readonly method: unknown;
  readonly static_: boolean;
  readonly declaration: HandlerDeclaration;
}

function faultOf(decorator: string, { key, method, static_, declaration }: Decorated): string | undefined {
  if (typeof key === 'symbol') return handlerMessages.symbolMethod(decorator);
  if (typeof method !== 'function') return handlerMessages.notAMethod(decorator);
  if (static_) return handlerMessages.staticMethod(decorator);
  const options: unknown = declaration.options;
  if (typeof options !== 'object' || options === null) return handlerMessages.noOptions(decorator, options);
  const names: readonly string[] = HANDLER_OPTION_NAMES[declaration.kind];
  const unknown = Object.keys(options).find((name) => !names.includes(name));
  return unknown && handlerMessages.unknownOption(decorator, unknown, adviceOn(unknown, names));
}
