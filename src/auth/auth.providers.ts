import type { Provider } from '@nestjs/common';
import { SCOPES_DECORATOR, type ScopesDecorator } from '../core/plugins/scopes.js';
import { McpBearerGuard } from './bearer.guard.js';
import { RequireScopes } from './require-scopes.js';

export const authProviders: Provider[] = [
  {
    provide: SCOPES_DECORATOR,
    useValue: (({ all, listed }) => RequireScopes(...(all as [string]), { listed })) satisfies ScopesDecorator,
  },
  McpBearerGuard,
];
