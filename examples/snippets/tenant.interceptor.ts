// #region resolve
import {
  type CallHandler,
  type ExecutionContext,
  Inject,
  Injectable,
  type NestInterceptor,
  Scope,
} from '@nestjs/common';
import { ContextIdFactory, ModuleRef } from '@nestjs/core';
import type { Observable } from 'rxjs';

@Injectable({ scope: Scope.REQUEST })
export class Tenant {
  name = '';
}

@Injectable()
export class TenantInterceptor implements NestInterceptor {
  constructor(@Inject(ModuleRef) private readonly moduleRef: ModuleRef) {}

  async intercept(
    context: ExecutionContext,
    next: CallHandler,
  ): Promise<Observable<unknown>> {
    const request = context.switchToHttp().getRequest<{ headers: Headers }>();
    const contextId = ContextIdFactory.getByRequest(request);
    const tenant = await this.moduleRef.resolve(Tenant, contextId, { strict: false });
    tenant.name = request.headers['x-tenant'] ?? 'none';
    return next.handle();
  }
}

type Headers = Record<string, string | undefined>;
// #endregion
