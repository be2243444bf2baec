import { Module } from '@nestjs/common';
import { OrdersController } from './orders.controller.js';
import { OrdersService } from './orders.service.js';
import { OrdersTools } from './orders.tools.js';

@Module({
  controllers: [OrdersController],
  // MCP: tools are providers or controllers; the endpoint finds them.
  providers: [OrdersService, OrdersTools],
})
export class OrdersModule {}
