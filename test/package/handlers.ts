import type {
  ArgumentsHost,
  CallHandler,
  CanActivate,
  ExceptionFilter,
  ExecutionContext,
  NestInterceptor,
  PipeTransform,
  Provider,
} from '@nestjs/common';
import {
  Catch,
  createParamDecorator,
  Injectable,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
} from '@nestjs/common';
import { APP_FILTER, APP_GUARD, APP_INTERCEPTOR, APP_PIPE } from '@nestjs/core';
import {
  McpArgs,
  McpExecutionContext,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
  toolProgress,
  type ToolEvent,
} from 'nestjs-mcp-streamable';
import { map, of, type Observable } from 'rxjs';
import { z } from 'zod';

/** What an app runs around its routes, and here around its handlers: each once on a method, and once global. */

function headersOf(context: ExecutionContext): Record<string, string | undefined> {
  return context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers;
}

const Caller = createParamDecorator((_: unknown, context: ExecutionContext) => headersOf(context)['x-caller']);

/** Lets in who says `x-caller: anna`, to whatever handler it stands at. */
@Injectable()
class CallerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return McpExecutionContext.isMcp(context) && headersOf(context)['x-caller'] === 'anna';
  }
}

@Injectable()
class BannedGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return !McpExecutionContext.isMcp(context) || headersOf(context)['x-banned'] === undefined;
  }
}

@Injectable()
class BracketInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((result: unknown) => `[${String(result)}]`));
  }
}

/** Around routes too, which return nothing. */
@Injectable()
class QuoteInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((result: unknown) => (typeof result === 'string' ? `"${result}"` : result)));
  }
}

@Injectable()
class UpperCasePipe implements PipeTransform {
  transform(value: unknown): unknown {
    return typeof value === 'string' ? value.toUpperCase() : value;
  }
}

@Injectable()
class TrimPipe implements PipeTransform {
  transform(value: unknown): unknown {
    return typeof value === 'string' ? value.trim() : value;
  }
}

@Catch(RangeError)
class RangeFilter implements ExceptionFilter {
  catch({ message }: RangeError): string {
    return `${message}, says the method`;
  }
}

@Catch(TypeError)
class TypeFilter implements ExceptionFilter {
  catch({ message }: TypeError, host: ArgumentsHost): void {
    host
      .switchToHttp()
      .getResponse()
      .status(409)
      .json({ message: `${message}, says the app` });
  }
}

const addends = z.object({ a: z.number(), b: z.number().default(1) });

@Injectable()
class Tools {
  @Tool({ name: 'add', description: 'Adds', inputSchema: addends })
  @UseGuards(CallerGuard)
  add(@McpArgs() { a, b }: z.infer<typeof addends>): string {
    return `The sum is ${a + b}`;
  }

  @Tool({ name: 'say', inputSchema: z.object({ word: z.string() }) })
  @UseGuards(CallerGuard)
  @UseInterceptors(BracketInterceptor)
  @UsePipes(UpperCasePipe)
  @UseFilters(RangeFilter)
  say(@McpArgs('word') word: string, @Caller() caller: string): Observable<ToolEvent<string>> {
    if (word === 'FAR') throw new RangeError('Too far');
    if (word === 'ODD') throw new TypeError('Too odd');
    return of(toolProgress(1), `${caller} says ${word}`);
  }
}

@Injectable()
@UseGuards(CallerGuard)
class Documents {
  @Resource({ uri: 'shop://terms', name: 'terms' })
  terms(): string {
    return 'Pay soon';
  }

  @ResourceTemplate({ uriTemplate: 'shop://order/{id}', name: 'order' })
  order(@McpArgs('id') id: string): string {
    return `Order ${id}`;
  }

  @Prompt({ name: 'complain', inputSchema: z.object({ id: z.string() }) })
  complain(@McpArgs('id') id: string): string {
    return `Complain about ${id}`;
  }
}

export const handlers: Provider[] = [
  Tools,
  Documents,
  { provide: APP_GUARD, useClass: BannedGuard },
  { provide: APP_INTERCEPTOR, useClass: QuoteInterceptor },
  { provide: APP_PIPE, useClass: TrimPipe },
  { provide: APP_FILTER, useClass: TypeFilter },
];
