import { ApiProperty, ApiPropertyOptional } from '@nestjs/swagger';
import { IsIn, IsInt, IsOptional, IsPositive, IsUUID } from 'class-validator';
import { type Stage, STAGES } from './deal.entity.js';

export class FindDealsDto {
  @ApiPropertyOptional({ description: 'Only deals in this stage', enum: STAGES })
  @IsOptional()
  @IsIn(STAGES)
  stage?: Stage;
}

export class PayDto {
  @ApiProperty({
    description: 'A new UUID for each payment; the same one when a call is repeated',
  })
  @IsUUID()
  requestId!: string;

  @ApiProperty({ description: 'The amount in cents' })
  @IsInt()
  @IsPositive()
  cents!: number;
}

export class DealDto {
  @ApiProperty() id!: number;
  @ApiProperty({ description: 'The number of the contact' }) contact!: number;
  @ApiProperty() title!: string;
  @ApiProperty({ enum: STAGES }) stage!: Stage;
  @ApiProperty({ description: 'The amount in cents' }) cents!: number;
  @ApiProperty({ description: 'What is paid of it' }) paid!: number;
}
