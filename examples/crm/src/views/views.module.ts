import { Module } from '@nestjs/common';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DealsModule } from '../deals/deals.module.js';
import { View } from './view.entity.js';
import { ViewTools } from './view.tools.js';
import { ViewsController } from './views.controller.js';

@Module({
  imports: [TypeOrmModule.forFeature([View]), DealsModule],
  controllers: [ViewsController],
  providers: [ViewTools],
})
export class ViewsModule {}
