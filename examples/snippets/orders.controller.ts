// #region both
import {
  Controller,
  DefaultValuePipe,
  Get,
  NotFoundException,
  Param,
  ParseIntPipe,
  Query,
} from '@nestjs/common';
import { type McpContext, McpCtx, Tool } from 'nestjs-mcp-streamable';

const LINES = ['lamp', 'chair', 'table'];

@Controller('orders')
export class OrdersController {
  /**
   * This method serves `GET /orders/7/lines?limit=2`, and calls of the tool
   * `orders_lines` with `{ "id": 7, "limit": 2 }`.
   */
  @Get(':id/lines')
  @Tool({ description: 'Lists the lines of an order' })
  async lines(
    @Param('id', ParseIntPipe) id: number,
    @Query('limit', new DefaultValuePipe(10), ParseIntPipe) limit: number,
    @McpCtx() ctx?: McpContext, // is undefined on the route
  ): Promise<object> {
    if (id !== 7) throw new NotFoundException(`There is no order ${id}.`);
    await ctx?.progress(1, 1, 'Found it');
    return { id, lines: LINES.slice(0, limit) };
  }
}
// #endregion
