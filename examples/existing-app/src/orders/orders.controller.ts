import { Body, Controller, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { ApiBearerAuth, ApiCreatedResponse, ApiOkResponse, ApiOperation, ApiParam } from '@nestjs/swagger';
import { Tool, Tools } from 'nestjs-mcp-streamable';
import { CurrentUser, type User } from '../auth/jwt.guard.js';
import { CreateOrderDto, FindOrdersDto, OrderDto } from './order.dto.js';
import { OrdersService } from './orders.service.js';

/**
 * MCP: with `@Tools()` each route is a tool too: `orders_find`, `orders_create`, `orders_pay`. Its arguments are what the route
 * takes, its title and description are the summary and the description of Swagger, and an `HttpException` of the service is a result that the model reads.
 */
@ApiBearerAuth()
@Controller('orders')
@Tools()
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Get()
  @ApiOperation({ summary: 'List orders', description: 'Lists your orders' })
  @ApiOkResponse({ type: [OrderDto] })
  find(@CurrentUser() user: User, @Query() filter: FindOrdersDto): OrderDto[] {
    return this.orders.find(user.id, filter);
  }

  @Post()
  @ApiOperation({ summary: 'Order', description: 'Orders something' })
  @ApiCreatedResponse({ type: OrderDto })
  // MCP: a POST may destroy something; this one does not.
  @Tool({ annotations: { destructiveHint: false } })
  create(@CurrentUser() user: User, @Body() order: CreateOrderDto): OrderDto {
    return this.orders.create(user.id, order);
  }

  @Post(':id/pay')
  @HttpCode(200)
  @ApiOperation({ summary: 'Pay', description: 'Pays an open order' })
  @ApiParam({ name: 'id', description: 'The number of the order, such as "A-1"' })
  @ApiOkResponse({ type: OrderDto })
  @Tool({ annotations: { destructiveHint: true } })
  pay(@CurrentUser() user: User, @Param('id') id: string): OrderDto {
    return this.orders.pay(user.id, id);
  }
}
