// #region roles
import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  UseGuards,
} from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import { McpArgs, McpExecutionContext, Tool } from 'nestjs-mcp-streamable';
import { z } from 'zod';
import { Orders } from './orders.service.js';

export const Roles = Reflector.createDecorator<string[]>();

/** This guard has no code for MCP, so it also works on the routes of your app. */
@Injectable()
export class RolesGuard implements CanActivate {
  constructor(@Inject(Reflector) private readonly reflector: Reflector) {}

  canActivate(context: ExecutionContext): boolean {
    const allowed =
      this.reflector.getAllAndOverride(Roles, [
        context.getHandler(),
        context.getClass(),
      ]) ?? [];
    const { user } = context.switchToHttp().getRequest<{ user?: { roles: string[] } }>();
    return allowed.length === 0 || allowed.some((role) => user?.roles.includes(role));
  }
}
// #endregion

const OrderId = z.object({ id: z.string() });

// #region args
/** This guard reads the arguments, so it does not decide what lists show. */
@Injectable()
export class OwnOrderGuard implements CanActivate {
  constructor(@Inject(Orders) private readonly orders: Orders) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const { id } = McpExecutionContext.create(context).getArgs<{ id?: unknown }>();
    const { user } = context.switchToHttp().getRequest<{ user?: { id: string } }>();
    const order = await this.orders.find(String(id));
    return order.owner === user?.id;
  }
}
// #endregion

// #region use
@Injectable()
@UseGuards(RolesGuard)
export class BackOffice {
  @Tool({ name: 'refund_order', description: 'Pays an order back', inputSchema: OrderId })
  @Roles(['staff'])
  refund(@McpArgs('id') id: string): string {
    return `Order ${id} is paid back.`;
  }

  @Tool({
    name: 'cancel_order',
    description: 'Cancels an order of your own',
    inputSchema: OrderId,
  })
  @UseGuards(OwnOrderGuard)
  cancel(@McpArgs('id') id: string): string {
    return `Order ${id} is cancelled.`;
  }
}
// #endregion
