import { Body, Controller, Get, HttpCode, Param, Post, Query } from '@nestjs/common';
import { ApiBearerAuth, ApiCreatedResponse, ApiOkResponse } from '@nestjs/swagger';
import { CurrentUser, type User } from '../auth/jwt.guard.js';
import { CreateOrderDto, FindOrdersDto, OrderDto } from './order.dto.js';
import { OrdersService } from './orders.service.js';

@ApiBearerAuth()
@Controller('orders')
export class OrdersController {
  constructor(private readonly orders: OrdersService) {}

  @Get()
  @ApiOkResponse({ type: [OrderDto] })
  find(@CurrentUser() user: User, @Query() filter: FindOrdersDto): OrderDto[] {
    return this.orders.find(user.id, filter);
  }

  @Post()
  @ApiCreatedResponse({ type: OrderDto })
  create(@CurrentUser() user: User, @Body() order: CreateOrderDto): OrderDto {
    return this.orders.create(user.id, order);
  }

  @Post(':id/pay')
  @HttpCode(200)
  @ApiOkResponse({ type: OrderDto })
  pay(@CurrentUser() user: User, @Param('id') id: string): OrderDto {
    return this.orders.pay(user.id, id);
  }
}
