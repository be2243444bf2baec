import {
  Body,
  Catch,
  Controller,
  createParamDecorator,
  ForbiddenException,
  HttpCode,
  Inject,
  Injectable,
  Post,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type ArgumentMetadata,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type INestApplication,
  type NestInterceptor,
  type PipeTransform,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE, Reflector } from '@nestjs/core';
import {
  currentMcpCall,
  McpArgs,
  McpContext,
  McpCtx,
  McpExecutionContext,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { map, tap } from 'rxjs';
import { z } from 'zod';
import { nameOf } from '../support/kinds.js';
import { decidesByArguments } from '../support/users.js';

/** Where an enhancer can stand. */
export type Place = 'method' | 'class' | 'APP_*' | 'useGlobal*';
export const PLACES: readonly Place[] = ['method', 'class', 'APP_*', 'useGlobal*'];

export type EnhancerName = 'guard' | 'interceptor' | 'pipe' | 'filter' | 'param';
export const ENHANCERS: readonly EnhancerName[] = ['guard', 'interceptor', 'pipe', 'filter', 'param'];

/** What ran, and what it saw of the call. */
interface Sight {
  /** `guard`, `interceptor`, `interceptor's way out`, … */
  readonly what: string;
  readonly place: string;
  /** `mcp`, or the class of the route. */
  readonly around: string;
  [detail: string]: unknown;
}

let sights: Sight[] = [];

/** What ran since the last call of this. */
export function takeSights(): Sight[] {
  const taken = sights;
  sights = [];
  return taken;
}

const Mark = Reflector.createDecorator<string>();
const reflector = new Reflector();

/** The HTTP request of a context, as a guard of any app would look at it. */
function httpOf(host: ArgumentsHost): object {
  const request = host.switchToHttp().getRequest();
  return { type: host.getType(), user: request.user, caller: request.headers['x-caller'] };
}

/** What an enhancer sees that gets an `ExecutionContext` or an `ArgumentsHost`. */
function note(what: string, place: string, host: ArgumentsHost & Partial<ExecutionContext>): void {
  // Nest tells filters neither.
  const [handler, type] = [host.getHandler?.(), host.getClass?.()];
  if (!McpExecutionContext.isMcp(host)) {
    sights.push({ what, place, around: type?.name ?? 'a route', ...httpOf(host) });
    return;
  }
  const mcp = McpExecutionContext.create(host);
  const context = mcp.getContext();
  sights.push({
    what,
    place,
    around: 'mcp',
    ...httpOf(host),
    kind: mcp.getKind(),
    name: mcp.getName(),
    class: mcp.getClass().name,
    method: mcp.getHandler().name,
    isContext: context instanceof McpContext,
    principal: context.principal,
    rpc: context.method,
    sameRequest: context.request === host.switchToHttp().getRequest(),
    ...(handler && { mark: reflector.get(Mark, handler), sameClass: type === mcp.getClass() }),
  });
}

/** What is seen by those that get no context: pipes, schemas, the handler itself. */
function noteValue(what: string, place: string, details: object = {}): void {
  const call = currentMcpCall();
  const user = (call?.request as { user?: unknown } | undefined)?.user;
  sights.push({ what, place, around: call ? 'mcp' : 'a route', rpc: call?.method, user, ...details });
}

const denies = (place: Place, host: ArgumentsHost): boolean =>
  host.switchToHttp().getRequest().headers['x-deny'] === place;

/** Denies who asks for it. */
function guardAt(place: Place): Type<CanActivate> {
  @Injectable()
  class Guard implements CanActivate {
    // Resolved where the handler is: without it the guard would not be made at all.
    constructor(@Inject(Reflector) private readonly reflector: Reflector) {}
    canActivate(context: ExecutionContext): boolean {
      if ('x-deny' in context.switchToHttp().getRequest().headers) decidesByArguments(context);
      note('guard', place, context);
      if (this.reflector.get(Mark, context.getHandler()) === undefined || !denies(place, context)) return true;
      throw new ForbiddenException(`Denied by ${place}`);
    }
  }
  return Guard;
}

/** Adds something to each text. */
function interceptorAt(place: Place): Type<NestInterceptor> {
  @Injectable()
  class Interceptor implements NestInterceptor {
    constructor(@Inject(Reflector) private readonly reflector: Reflector) {}
    intercept(context: ExecutionContext, next: CallHandler) {
      note('interceptor', place, context);
      if (this.reflector.get(Mark, context.getHandler()) === undefined) return next.handle();
      return next.handle().pipe(
        tap(() => note("interceptor's way out", place, context)),
        map((text) => `${text} intercepted`),
      );
    }
  }
  return Interceptor;
}

/** Adds something to the arguments. */
function pipeAt(place: string): Type<PipeTransform> {
  @Injectable()
  class Pipe implements PipeTransform {
    constructor(@Inject(Reflector) private readonly reflector: Reflector) {}
    transform(value: unknown, { type, data, metatype }: ArgumentMetadata): unknown {
      const known = this.reflector instanceof Reflector;
      noteValue('pipe', place, { type, data, metatype, value, known });
      if (type === 'custom') return `${String(value)} piped`;
      return { ...(value as object), piped: true };
    }
  }
  return Pipe;
}

class Broken extends Error {}

/** Makes a result of an error. */
function filterAt(place: Place): Type<ExceptionFilter> {
  @Catch(Broken)
  @Injectable()
  class Filter implements ExceptionFilter {
    constructor(@Inject(Reflector) private readonly reflector: Reflector) {}
    catch(error: Broken, host: ArgumentsHost): string | undefined {
      note('filter', place, host);
      if (McpExecutionContext.isMcp(host)) return `${error.message} mapped`;
      const response = host.switchToHttp().getResponse();
      response.status(this.reflector ? 418 : 500).send('mapped');
      return undefined;
    }
  }
  return Filter;
}

/** Injects something of the caller's. */
const Injected = createParamDecorator((data: string, context: ExecutionContext) => {
  note('param', 'method', context);
  return `${data} of ${context.switchToHttp().getRequest().headers['x-caller']}`;
});

type Maker = (place: Place) => Type<object>;
const MAKERS: Readonly<Record<string, { make: Maker; use: (enhancer: never) => MethodDecorator & ClassDecorator }>> = {
  guard: { make: guardAt, use: UseGuards },
  interceptor: { make: interceptorAt, use: UseInterceptors },
  pipe: { make: pipeAt, use: UsePipes },
  filter: { make: filterAt, use: UseFilters },
};
const APP_TOKENS: Readonly<Record<string, string>> = {
  guard: APP_GUARD,
  interceptor: APP_INTERCEPTOR,
  pipe: APP_PIPE,
  filter: APP_FILTER,
};

/** Which enhancers stand where. */
export type Standing = Partial<Record<Place, readonly Exclude<EnhancerName, 'param'>[]>>;

function using(standing: Standing, place: 'method' | 'class'): MethodDecorator & ClassDecorator {
  const decorators = (standing[place] ?? []).map((name) => MAKERS[name]!.use(MAKERS[name]!.make(place) as never));
  const applied = (...target: [never]): void => {
    for (const decorate of decorators) decorate(...target);
  };
  return applied as unknown as MethodDecorator & ClassDecorator;
}

const nothing: ParameterDecorator = () => {};

/** A text that says when it is checked. */
const checkedText = z.string().refine((text) => {
  noteValue('validation', 'schema');
  return text !== 'bad';
});
const inputSchema = z.object({ q: checkedText });

/** One handler of each kind, with enhancers on its class and methods. What it returns says what it got. */
export function hostOf(name: string, standing: Standing, { injected = false, pipes = false } = {}): Type<object> {
  const around = using(standing, 'method');
  const param = injected ? Injected('injected') : nothing;
  const args = pipes ? McpArgs(pipeAt('parameter')) : McpArgs();
  const uriTemplate = nameOf('template', name);

  @using(standing, 'class')
  @Injectable()
  class Host {
    @Mark(name)
    @around
    @Tool({ name, inputSchema })
    tool(@args args: object, @McpCtx() context: McpContext, @param injected = ''): string {
      return answer(args, context, injected);
    }
    @Mark(name)
    @around
    @Resource({ uri: nameOf('resource', name), name })
    resource(@args args: object, @McpCtx() context: McpContext, @param injected = ''): string {
      return answer(args, context, injected);
    }
    @Mark(name)
    @around
    @ResourceTemplate({ uriTemplate, name })
    template(@args args: object, @McpCtx() context: McpContext, @param injected = ''): string {
      return answer(args, context, injected);
    }
    @Mark(name)
    @around
    @Prompt({ name, inputSchema })
    prompt(@args args: object, @McpCtx() context: McpContext, @param injected = ''): string {
      return answer(args, context, injected);
    }
  }
  Object.defineProperty(Host, 'name', { value: `${name}Host` });
  return Host;
}

function answer(args: object, { request }: McpContext, injected: string): string {
  noteValue('handler', 'method');
  if ((request as { headers: Record<string, string> }).headers['x-fail']) throw new Broken('secret');
  return JSON.stringify({ args, ...(injected && { injected }) });
}

/** A route with the same around it: what Nest does there is what it must do around handlers. */
export function controlOf(standing: Standing): Type<object> {
  @using(standing, 'class')
  @Controller('control')
  class Control {
    @Mark('control')
    @using(standing, 'method')
    @Post()
    @HttpCode(200)
    control(@Body(pipeAt('parameter')) _body: object, @Injected('injected') _injected: string): string {
      sights.push({ what: 'handler', place: 'method', around: 'a route' });
      if ((_body as { fail?: boolean }).fail) throw new Broken('secret');
      return 'done';
    }
  }
  return Control;
}

/** What stands around the whole app: as providers, and as an app sets it up before it listens. */
export function globals(standing: Standing): { providers: Provider[]; configure: (app: INestApplication) => void } {
  const providers = (standing['APP_*'] ?? []).map((name) => ({
    provide: APP_TOKENS[name]!,
    useClass: MAKERS[name]!.make('APP_*'),
  }));
  const configure = (app: INestApplication): void => {
    for (const name of standing['useGlobal*'] ?? []) {
      const enhancer = new (MAKERS[name]!.make('useGlobal*'))(reflector) as never;
      if (name === 'guard') app.useGlobalGuards(enhancer);
      if (name === 'interceptor') app.useGlobalInterceptors(enhancer);
      if (name === 'pipe') app.useGlobalPipes(enhancer);
      if (name === 'filter') app.useGlobalFilters(enhancer);
    }
  };
  return { providers, configure };
}
