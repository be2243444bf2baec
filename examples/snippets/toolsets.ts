// #region guard
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  Module,
} from '@nestjs/common';
import { APP_GUARD, Reflector } from '@nestjs/core';
import {
  McpExecutionContext,
  type McpRegistration,
  McpRegistry,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';

/** Names the toolset of a class or handler. A handler without it is in all toolsets. */
export const Toolset = Reflector.createDecorator<string>();

/**
 * Shows a client the toolsets that it asks for: `/mcp?toolset=billing,users`, or the
 * header `X-Toolset`.
 */
@Injectable()
export class ToolsetGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    if (!McpExecutionContext.isMcp(context)) return true;
    const toolset = this.reflector.getAllAndOverride(Toolset, [
      context.getHandler(),
      context.getClass(),
    ]);
    const { query, headers } = context.switchToHttp().getRequest<ToolsetRequest>();
    const given = [query?.toolset ?? headers['x-toolset'] ?? []].flat();
    const asked = given.flatMap((names) => names.match(/[^\s,]+/g) ?? []);
    return toolset === undefined || asked.length === 0 || asked.includes(toolset);
  }
}

interface ToolsetRequest {
  /** Absent over stdio, and in calls from within the app. */
  readonly query?: { readonly toolset?: string | string[] };
  readonly headers: { readonly 'x-toolset'?: string };
}
// #endregion

// #region module
@Injectable()
@Toolset('billing')
export class BillingTools {
  @Tool({ name: 'refund', description: 'Refunds an invoice' })
  refund(): string {
    return 'Refunded.';
  }
}

@Injectable()
@Toolset('users')
export class UserTools {
  @Tool({ name: 'invite', description: 'Invites a user' })
  invite(): string {
    return 'Invited.';
  }
}

@Injectable()
export class HelpTools {
  @Tool({ name: 'help', description: 'Explains the toolsets' })
  help(): string {
    return 'There are: billing, users.';
  }
}

@Module({
  imports: [
    McpStreamableModule.forRoot({
      serverInfo: { name: 'back-office', version: '1.0.0' },
      listGuards: [ToolsetGuard], // lists ask this guard of the whole app too
    }),
  ],
  providers: [
    BillingTools,
    UserTools,
    HelpTools,
    { provide: APP_GUARD, useClass: ToolsetGuard },
  ],
})
export class AppModule {}
// #endregion

// #region registry
/** Switches a toolset on and off while the app runs, and notifies all clients. */
@Injectable()
export class MaintenanceTools {
  #tools: McpRegistration<object>[] = [];

  constructor(@Inject(McpRegistry) private readonly registry: McpRegistry) {}

  enable(): void {
    if (this.#tools.length > 0) return;
    this.#tools = ['reindex', 'vacuum'].map((name) =>
      this.registry.registerTool({
        name,
        description: `Runs ${name}`,
        handler: () => `${name} is done.`,
      }),
    );
  }

  disable(): void {
    for (const tool of this.#tools.splice(0)) tool.remove();
  }
}
// #endregion
