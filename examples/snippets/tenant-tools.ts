// #region scope
import { Inject, Injectable, Scope } from '@nestjs/common';
import { REQUEST } from '@nestjs/core';
import { Tool } from 'nestjs-mcp-streamable';

/** Nest makes an instance for each HTTP request that needs one. */
@Injectable({ scope: Scope.REQUEST })
export class TenantTools {
  constructor(
    @Inject(REQUEST)
    private readonly request: { headers: Record<string, string | undefined> },
  ) {}

  @Tool({ name: 'my_tenant', description: 'Says which tenant you work for' })
  tenant(): string {
    return this.request.headers['x-tenant'] ?? 'none';
  }
}
// #endregion
