import { ProtocolError } from '@modelcontextprotocol/server';
import {
  type ArgumentsHost,
  type CanActivate,
  Catch,
  ConflictException,
  type ExceptionFilter,
  type ExecutionContext,
  ForbiddenException,
  HttpException,
  Inject,
  Injectable,
  type NestInterceptor,
  NotFoundException,
  UnauthorizedException,
  UseFilters,
  UseGuards,
  UseInterceptors,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter, HttpAdapterHost } from '@nestjs/core';
import { throwError } from 'rxjs';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, EntryProvider, InvokingApp } from '../../../../test/support/invoking-app.js';
import { McpExecutionContext } from '../../calls/mcp-execution-context.js';
import { HandlerCancelled, HandlerDeniedError } from '../handlers.errors.js';

class Broken extends Error {}
class Missing extends Error {}

/** Accepts callers that a header names, and challenges the others, on routes and handlers alike. */
@Injectable()
class BearerGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (!McpExecutionContext.isMcp(context)) return true;
    const http = context.switchToHttp();
    const { 'x-caller': caller } = http.getRequest().headers;
    if (caller === 'anna') return true;
    if (caller === 'bert') return false;
    http.getResponse().header('WWW-Authenticate', 'Bearer realm="orders"');
    throw new UnauthorizedException('Who are you?');
  }
}

class DenyingInterceptor implements NestInterceptor {
  intercept(): never {
    throw new ForbiddenException('Not on Sundays');
  }
}

/** Answers everything through the adapter, as in the documentation of Nest. */
@Catch()
@Injectable()
class AdapterFilter implements ExceptionFilter {
  constructor(@Inject(HttpAdapterHost) private readonly host: HttpAdapterHost) {}
  catch(exception: unknown, host: ArgumentsHost): void {
    const { httpAdapter } = this.host;
    const response = host.switchToHttp().getResponse();
    const status = exception instanceof HttpException ? exception.getStatus() : 500;
    httpAdapter.setHeader(response, 'x-filtered', 'yes');
    httpAdapter.reply(response, { statusCode: status, message: (exception as Error).message }, status);
  }
}

/** Answers through the response, in the style that both adapters have. */
@Catch(Missing)
class MissingFilter implements ExceptionFilter {
  async catch(exception: Missing, host: ArgumentsHost): Promise<void> {
    await Promise.resolve();
    host
      .switchToHttp()
      .getResponse()
      .status(404)
      .send({ message: `${exception.message} is not here`, statusCode: 404 });
  }
}

@Catch()
class ReturningFilter implements ExceptionFilter {
  catch(exception: Error): string {
    return `${exception.message}, but fine`;
  }
}

@Catch(ForbiddenException)
class HidingFilter implements ExceptionFilter {
  catch(_exception: unknown, host: ArgumentsHost): void {
    host.switchToHttp().getResponse().status(404).send('There is nothing');
  }
}

@Catch(Broken)
class RethrowingFilter implements ExceptionFilter {
  catch(): never {
    throw new ConflictException('Was broken');
  }
}

@Catch(Broken)
class ChainingFilter implements ExceptionFilter {
  catch(_exception: unknown, host: ArgumentsHost): unknown {
    return host.switchToHttp().getResponse().status(410).json({ message: 'Gone' });
  }
}

@Catch(Broken)
class ResolverFilter implements ExceptionFilter {
  catch(): unknown {
    return new ConflictException('Returned');
  }
}

@Catch(Broken)
class MessageFilter implements ExceptionFilter {
  catch(): unknown {
    return throwError(() => new ConflictException('Emitted'));
  }
}

@EntryProvider()
@Injectable()
class Denials {
  @UseGuards(BearerGuard)
  guarded() {
    return 'in';
  }
  @UseGuards(BearerGuard)
  @UseFilters(HidingFilter)
  hidden() {
    return 'in';
  }
  @UseInterceptors(DenyingInterceptor)
  intercepted() {
    return 'in';
  }
  own(): never {
    throw new ForbiddenException('Not this order');
  }
  broken(): never {
    throw new Broken('secret');
  }
  notFound(): never {
    throw new NotFoundException('No such order');
  }
  protocol(): never {
    throw new ProtocolError(-32042, 'Go there', { url: 'https://there' });
  }
  cancelled(): never {
    throw new HandlerCancelled('over');
  }
  @UseFilters(MissingFilter)
  missing(): never {
    throw new Missing('Order 7');
  }
  @UseFilters(RethrowingFilter)
  rethrown(): never {
    throw new Broken();
  }
  @UseFilters(ChainingFilter)
  chained(): never {
    throw new Broken();
  }
  @UseFilters(ResolverFilter)
  returned(): never {
    throw new Broken();
  }
  @UseFilters(MessageFilter)
  emitted(): never {
    throw new Broken();
  }
}

describe.each(ONE_ADAPTER)('who is not let in, and what goes wrong, on %s', (adapter) => {
  let app: InvokingApp;
  const start = async (...providers: object[]): Promise<void> => {
    app = await InvokingApp.start({ adapter, providers: [Denials, ...(providers as never[])] });
  };
  const failure = (handler: string, headers = {}): Promise<unknown> =>
    app.run({ handler: `Denials.${handler}` }, headers).then(
      (value) => expect.fail(`returned ${String(value)}`),
      (error: unknown) => error,
    );

  afterEach(() => app.close());

  it('the invoker of a handler reports a denial with status, headers and text', async () => {
    await start();
    expect(await app.run({ handler: 'Denials.guarded' }, { 'x-caller': 'anna' })).toBe('in');
    const denied = (await failure('guarded')) as HandlerDeniedError;
    expect(denied).toBeInstanceOf(HandlerDeniedError);
    expect(denied).toMatchObject({ status: 401, message: 'Who are you?' });
    expect(denied.headers).toEqual({ 'www-authenticate': 'Bearer realm="orders"' });
    expect(await failure('guarded', { 'x-caller': 'bert' })).toMatchObject({ name: 'HandlerDeniedError', status: 403 });
  });

  it('the invoker of a handler takes a 403 before the handler for a denial, and one of the handler for its failure', async () => {
    await start();
    expect(await failure('intercepted')).toMatchObject({ name: 'HandlerDeniedError', message: 'Not on Sundays' });
    expect(await failure('own')).toBeInstanceOf(ForbiddenException);
  });

  it.each([
    ['BaseExceptionFilter', BaseExceptionFilter],
    ['a filter that answers through the adapter', AdapterFilter],
  ])('the invoker of a handler lets %s answer nothing', async (_name, filter) => {
    await start({ provide: APP_FILTER, useClass: filter });
    expect(await failure('guarded')).toMatchObject({ name: 'HandlerDeniedError', status: 401 });
    expect(await failure('own')).toBeInstanceOf(ForbiddenException);
    expect(await failure('broken')).toBeInstanceOf(Broken);
    expect(await failure('notFound')).toMatchObject({ status: 404, message: 'No such order' });
    expect(await failure('protocol')).toMatchObject({ code: -32042, data: { url: 'https://there' } });
    expect(await failure('cancelled')).toBeInstanceOf(HandlerCancelled);
  });

  it('the invoker of a handler takes what a filter returns for the result, and shows it no signal', async () => {
    await start({ provide: APP_FILTER, useClass: ReturningFilter });
    expect(await app.run({ handler: 'Denials.broken' })).toBe('secret, but fine');
    expect(await app.run({ handler: 'Denials.guarded' })).toBe('Who are you?, but fine');
    expect(await failure('cancelled')).toBeInstanceOf(HandlerCancelled);
  });

  it('the invoker of a handler takes what a filter answers for what it means', async () => {
    await start();
    const missing = (await failure('missing')) as HttpException;
    expect(missing).toBeInstanceOf(HttpException);
    expect([missing.getStatus(), missing.message]).toEqual([404, 'Order 7 is not here']);
    expect(missing.cause).toBeInstanceOf(Missing);
    const hidden = (await failure('hidden', { 'x-caller': 'bert' })) as HttpException;
    expect([hidden.getStatus(), hidden.message]).toEqual([404, 'There is nothing']);
    expect(await failure('rethrown')).toMatchObject({ message: 'Was broken' });
    expect(await failure('chained')).toMatchObject({ status: 410, message: 'Gone' });
    expect(await failure('returned')).toMatchObject({ message: 'Returned' });
    expect(await failure('emitted')).toMatchObject({ message: 'Emitted' });
  });
});
