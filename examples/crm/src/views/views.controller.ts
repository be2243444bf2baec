import { Body, Controller, HttpCode, Put } from '@nestjs/common';
import { ApiOperation, ApiProperty } from '@nestjs/swagger';
import { InjectRepository } from '@nestjs/typeorm';
import { IsIn, IsInt, IsString, Length, Matches, Min } from 'class-validator';
import { McpRegistry, Tool, Tools } from 'nestjs-mcp-streamable';
import { Repository } from 'typeorm';
import type { Caller } from '../auth/auth.service.js';
import { CurrentCaller, Roles } from '../auth/guards.js';
import { type Stage, STAGES } from '../deals/deal.entity.js';
import { View } from './view.entity.js';
import { ViewTools } from './view.tools.js';

export class ViewDto {
  @ApiProperty({ description: 'The name of the tool, such as "big_open_deals"' })
  @Matches(/^[a-z][a-z_]{2,39}$/)
  name!: string;

  @ApiProperty({ description: 'What the tool does: models read it' })
  @IsString()
  @Length(10, 200)
  description!: string;

  @ApiProperty({ enum: STAGES })
  @IsIn(STAGES)
  stage!: Stage;

  @ApiProperty({ description: 'Deals of this amount in cents and more' })
  @IsInt()
  @Min(0)
  cents!: number;
}

@Controller('views')
@Roles(['manager'])
@Tools()
export class ViewsController {
  constructor(
    @InjectRepository(View) private readonly views: Repository<View>,
    private readonly registry: McpRegistry,
  ) {}

  /** The tools of this tenant change on all nodes, and its clients are told. */
  @Put()
  @HttpCode(200)
  @ApiOperation({
    summary: 'Save a view',
    description: 'Saves a search for deals as a tool of all users of your company',
  })
  @Tool({ annotations: { destructiveHint: true } })
  async save(
    @CurrentCaller() { tenant }: Caller,
    @Body() view: ViewDto,
  ): Promise<ViewDto> {
    const { name, description, stage, cents } = view;
    const row = { tenant, name, description, stage, cents };
    await this.views.upsert(row, ['tenant', 'name']);
    this.registry.changed(ViewTools);
    return view;
  }
}
