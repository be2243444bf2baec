import {
  Body,
  Controller,
  Get,
  HttpCode,
  Param,
  ParseIntPipe,
  Post,
  Query,
} from '@nestjs/common';
import { ApiOkResponse, ApiOperation } from '@nestjs/swagger';
import { type McpContext, McpCtx, Tool, Tools } from 'nestjs-mcp-streamable';
import type { Caller } from '../auth/auth.service.js';
import { CurrentCaller } from '../auth/guards.js';
import { DealDto, FindDealsDto, PayDto } from './deal.dto.js';
import { DealsService } from './deals.service.js';

/** Its routes are tools: `deals_find` and `deals_pay`. */
@Controller('deals')
@Tools()
export class DealsController {
  constructor(private readonly deals: DealsService) {}

  @Get()
  @ApiOperation({ summary: 'Find deals', description: 'Finds deals by their stage' })
  @ApiOkResponse({ type: [DealDto] })
  find(
    @CurrentCaller() { tenant }: Caller,
    @Query() { stage }: FindDealsDto,
  ): Promise<DealDto[]> {
    return this.deals.find(tenant, stage);
  }

  /** A repeated call gets the first result, and pays nothing. */
  @Post(':id/payments')
  @HttpCode(200)
  @ApiOperation({
    summary: 'Record a payment',
    description: 'Records a payment of a deal',
  })
  @ApiOkResponse({ type: DealDto })
  @Tool({
    idempotency: { argument: 'requestId' },
    annotations: { destructiveHint: false },
  })
  pay(
    @CurrentCaller() { tenant }: Caller,
    @Param('id', ParseIntPipe) id: number,
    @Body() payment: PayDto,
    @McpCtx() ctx?: McpContext,
  ): Promise<DealDto> {
    return this.deals.pay(tenant, id, payment, ctx?.signal);
  }
}
