// #region tools
import { Injectable } from '@nestjs/common';
import { type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';

@Injectable()
export class InvoiceTools {
  @Tool({ name: 'list_invoices', description: 'Lists your invoices' })
  @RequireScopes('invoices:read')
  list(@McpCtx() ctx: McpContext): string {
    return `The invoices of ${ctx.principal}: …`;
  }

  @Tool({ name: 'pay_invoice', description: 'Pays an invoice' })
  @RequireScopes('invoices:pay')
  pay(@McpCtx() ctx: McpContext): string {
    return `${ctx.principal} has paid.`;
  }
}
// #endregion
