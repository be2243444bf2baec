import { Module } from '@nestjs/common';
import { OrdersModule } from './orders.module.js';

/**
 * As `nest new` makes it, without its controller; OrdersModule is what the README adds.
 */
@Module({
  imports: [OrdersModule],
})
export class AppModule {}
