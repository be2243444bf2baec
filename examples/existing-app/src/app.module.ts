import { Module } from '@nestjs/common';
import { APP_GUARD, APP_INTERCEPTOR } from '@nestjs/core';
import { SkipThrottle, ThrottlerModule } from '@nestjs/throttler';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { AuthModule } from './auth/auth.module.js';
import { JwtGuard, type User } from './auth/jwt.guard.js';
import { CallerThrottlerGuard } from './auth/caller-throttler.guard.js';
import { ORIGINS } from './configure.js';
import { EnvelopeInterceptor } from './envelope.interceptor.js';
import { OrdersModule } from './orders/orders.module.js';

@Module({
  imports: [
    AuthModule,
    OrdersModule,
    ThrottlerModule.forRoot([{ ttl: 60_000, limit: 20 }]),
    McpStreamableModule.forRoot({
      serverInfo: { name: 'orders', version: '1.0.0' },
      // JwtGuard stands before the endpoint as before each route: nothing to add to `guards`. A session belongs to the user
      // that began it; another one gets 404 for its id.
      principal: ({ user }: { user: User }) => user.id,
      // A rate limiter would count each message, and the call of a tool once more: calls are enough.
      decorators: [SkipThrottle()],
      // The guards below need not be asked which tools a list shows: every user may call all of them.
      listGuards: [],
      // CORS says what a page may read; this says which pages are served.
      allowedOrigins: ORIGINS,
    }),
  ],
  providers: [
    // In this order: the limiter counts by user.
    { provide: APP_GUARD, useClass: JwtGuard },
    { provide: APP_GUARD, useClass: CallerThrottlerGuard },
    { provide: APP_INTERCEPTOR, useClass: EnvelopeInterceptor },
  ],
})
export class AppModule {}
