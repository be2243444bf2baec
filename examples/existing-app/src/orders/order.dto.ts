import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, IsInt, IsOptional, IsString, Length, Max, Min } from 'class-validator';

export const STATES = ['open', 'paid', 'sent'] as const;

/** MCP: rules and descriptions become the schema of the tool; models read the descriptions. */
export class CreateOrderDto {
  @ApiProperty({ description: 'What is ordered, such as "green tea"' })
  @IsString()
  @Length(1, 100)
  item!: string;

  @ApiPropertyOptional({ description: 'How many of it', default: 1 })
  @IsOptional()
  @IsInt()
  @Min(1)
  @Max(100)
  count?: number;
}

export class FindOrdersDto {
  @ApiPropertyOptional({ description: 'Only those in this state', enum: STATES })
  @IsOptional()
  @IsIn(STATES)
  state?: (typeof STATES)[number];
}

export class OrderDto {
  @ApiProperty({ description: 'The number of the order, such as "A-1"' }) id!: string;
  @ApiProperty() item!: string;
  @ApiProperty() count!: number;
  @ApiProperty({ enum: STATES }) state!: (typeof STATES)[number];
}
