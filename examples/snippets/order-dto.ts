// #region dto
import { Injectable } from '@nestjs/common';
import { IsInt, IsOptional, IsString, Min } from 'class-validator';
import { McpArgs, Tool } from 'nestjs-mcp-streamable';

export class OrderDto {
  @IsString()
  item!: string;

  @IsOptional()
  @IsInt()
  @Min(1)
  count?: number;
}

@Injectable()
export class DtoTools {
  @Tool({ name: 'order_dto' })
  dto(@McpArgs() { item, count = 1 }: OrderDto): string {
    return `${count} × ${item}`;
  }
}
// #endregion
