import type { Provider } from '@nestjs/common';
import { MethodRoutes } from '../handlers/invocation/method-routes.js';
import { AppRoutes } from './app-routes.js';
import { RouteMiddleware } from './route-middleware.js';

export const routeProviders: Provider[] = [RouteMiddleware, { provide: MethodRoutes, useClass: AppRoutes }];
