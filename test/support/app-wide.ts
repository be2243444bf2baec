import {
  Catch,
  HttpException,
  Injectable,
  type ArgumentsHost,
  type CallHandler,
  type CanActivate,
  type ExceptionFilter,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { RequestTimeoutException } from '@nestjs/common';
import { catchError, map, throwError, timeout, TimeoutError, type Observable, type SchedulerLike } from 'rxjs';

/** What many apps do to all of their routes. */
@Injectable()
export class WrappingInterceptor implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(map((data: unknown) => ({ success: true, data })));
  }
}

/** Refuses everything without a token, as guards of whole apps do. */
@Injectable()
export class EverywhereGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return 'authorization' in context.switchToHttp().getRequest<{ headers: object }>().headers;
  }
}

/** As in Nest's own documentation. */
@Injectable()
export class TimeoutInterceptor implements NestInterceptor {
  /** Times out that happened. */
  fired = 0;

  constructor(
    private readonly afterMs: number,
    private readonly scheduler: SchedulerLike,
  ) {}

  intercept(_context: ExecutionContext, next: CallHandler): Observable<unknown> {
    return next.handle().pipe(
      timeout({ each: this.afterMs, scheduler: this.scheduler }),
      catchError((error: unknown) => {
        if (!(error instanceof TimeoutError)) return throwError(() => error);
        this.fired++;
        return throwError(() => new RequestTimeoutException('Too slow for this app.'));
      }),
    );
  }
}

/** Answers every error of the app in a form of its own. */
@Catch()
export class AppExceptionFilter implements ExceptionFilter {
  catch(exception: unknown, host: ArgumentsHost): void {
    const response = host.switchToHttp().getResponse();
    const status = exception instanceof HttpException ? exception.getStatus() : 500;
    const body = { success: false, message: (exception as Error).message };
    const { raw } = response as { raw?: unknown };
    if (raw) response.status(status).send(body);
    else response.status(status).json(body);
  }
}
